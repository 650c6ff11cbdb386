import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/concurrency/clock.ts';
import { TmuxOnMachine } from '../../src/tmux/installed-tmux.ts';
import { isAtLeast, isOutdated, parseVersionLine } from '../../src/tmux/tmux-version.ts';
import { presentVersions, tmuxBinary } from '../support/tmux-server.ts';

describe('a version', () => {
  it('is the second word of tmux -V, by whatever name the binary was run', () => {
    expect(parseVersionLine('tmux 3.5a\n')).toBe('3.5a');
    expect(parseVersionLine('exe 3.3a')).toBe('3.3a');
    expect(parseVersionLine('tmux next-3.6')).toBe('next-3.6');
    for (const line of ['', 'tmux', 'usage: tmux [-V]', `tmux ${'9'.repeat(40)}`]) {
      expect(parseVersionLine(line)).toBeUndefined();
    }
  });

  it.each([
    ['3.3a', '3.5a', true],
    ['3.5', '3.5a', true],
    ['3.5a', '3.5a', false],
    ['3.8', '3.5a', false],
    ['next-3.6', '3.6', true],
    ['3.9', '3.10', true],
    ['master', '3.5a', null],
    ['master', 'master', false],
    [null, '3.5a', null],
    ['3.5a', null, null],
  ])('%s is outdated beside %s: %s', (server, installed, outdated) => {
    expect(isOutdated(server, installed)).toBe(outdated);
  });

  it('is compared with a release by its numbers', () => {
    expect(isAtLeast('3.10', 3, 9)).toBe(true);
    expect(isAtLeast('3.1c', 3, 2)).toBe(false);
    expect(isAtLeast('4.0', 3, 9)).toBe(true);
    expect(isAtLeast('master', 3, 2)).toBe(false);
  });
});

describe('the tmux of this machine', () => {
  it.each(presentVersions)('%s is found by its path', async (version) => {
    const binary = tmuxBinary(version) ?? '';
    expect(await new TmuxOnMachine(binary, systemClock).look()).toEqual({ binary, version });
  });

  it('is found on a search path, past what does not run', async () => {
    const [version = '3.3a'] = presentVersions;
    const directory = (tmuxBinary(version) ?? '').replace(/\/tmux$/, '');
    const machine = new TmuxOnMachine('tmux', systemClock, `relative:/nowhere:${directory}`);
    expect(machine.peek()).toBeUndefined();
    expect(machine.wasLookedFor).toBe(false);
    expect((await machine.look())?.version).toBe(version);
    expect(machine.peek()?.version).toBe(version);
  });

  it('is none where what has its name is no tmux', async () => {
    expect(await new TmuxOnMachine('/bin/false', systemClock).look()).toBeUndefined();
    expect(await new TmuxOnMachine('/nowhere/tmux', systemClock).look()).toBeUndefined();
  });
});
