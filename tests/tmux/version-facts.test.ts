import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { beforeAll, describe, expect, it } from 'vitest';
import { machineChecks } from '../../src/cli/doctor/machine.ts';
import { readConfig } from '../../src/config.ts';
import { layoutChecksum } from '../../src/tmux/restart/layout-cells.ts';
import { isAtLeast, parseVersionLine } from '../../src/tmux/tmux-version.ts';
import { versionLimits } from '../../src/tmux/version-limits.ts';
import {
  eventually,
  presentVersions,
  startTicks,
  startTmux,
  tmuxBinary,
  type Version,
} from '../support/tmux-server.ts';

/** What docs/tmux-versions.md says of each tmux, asked of the program itself. */

const client = (version: Version, socket: string, ...command: string[]) =>
  execa(tmuxBinary(version) ?? '', ['-u', '-S', socket, ...command], {
    reject: false,
    all: true,
    timeout: 5_000,
  });

describe.each(presentVersions)('tmux %s', (slot) => {
  let version: string;
  beforeAll(async () => {
    const { stdout } = await execa(tmuxBinary(slot) ?? '', ['-V']);
    version = parseVersionLine(stdout) ?? '';
  });

  it('knows -N, attach flags and server-wide subscriptions from its release on', async () => {
    await using server = await startTmux({ version: slot });
    const unknown = async (...words: string[]) =>
      /unknown option/.test((await client(slot, server.socket, ...words)).all);
    expect(await unknown('-N', 'list-sessions')).toBe(!isAtLeast(version, 3, 3));
    for (const flag of ['-f', '-B']) {
      expect(await unknown('refresh-client', flag, 'x')).toBe(!isAtLeast(version, 3, 2));
    }
    const where = await server.run('display-message', '-p', '#{pane_start_path}');
    expect(where === '').toBe(!isAtLeast(version, 3, 3));
  });

  it('writes layouts in the form of its release', async () => {
    await using server = await startTmux({ version: slot });
    const layout = await server.run('list-windows', '-F', '#{window_layout}');
    expect(layout.startsWith('{"V":2,')).toBe(isAtLeast(version, 3, 8));
  });

  it.each([
    ['garbage', ['3.3a']],
    ['', ['3.3a']],
    ['main-vertical-mirrored', ['3.3a']],
    [`${layoutChecksum('80x24,0,0{}')},80x24,0,0{}`, ['3.7c']],
  ])('given the layout %j directly, ends only where that is known', async (layout, ended) => {
    await using server = await startTmux({ version: slot });
    const pid = await server.pid();
    const before = await startTicks(pid);
    const { all } = await client(slot, server.socket, 'select-layout', '-t', 'main:', layout);
    expect(all.includes('server exited')).toBe(ended.includes(version));
    const lives = async () => (await startTicks(pid)) === before;
    if (ended.includes(version)) await eventually(async () => !(await lives()), 'it ended');
    else expect(await lives()).toBe(true);
  });

  it('is not reached by a client from before 3.6, once it is newer, and lives on', async () => {
    await using server = await startTmux({ version: slot });
    // Into a file: 3.1c keeps the end of a pipe that a later client gave it.
    const file = join(server.directory, 'said');
    const { exitCode } = await execa(
      'sh',
      ['-c', 'exec "$@" >"$0" 2>&1', file]
        .concat(tmuxBinary('3.3a') ?? '')
        .concat('-u', '-S', server.socket, 'list-sessions'),
      { reject: false, timeout: 5_000, stdio: 'ignore' },
    );
    expect([exitCode, await readFile(file, 'utf8')]).toEqual(
      isAtLeast(version, 3, 6)
        ? [1, 'server exited unexpectedly\n']
        : [0, expect.stringMatching(/^main: 1 windows/)],
    );
    expect(await server.run('list-sessions', '-F', '#{session_name}')).toBe('main');
  });

  it('has its limits named by the doctor, in the words of the documentation', async () => {
    const config = readConfig({ HOME: '/', MUXWARDEN_TMUX_BIN: tmuxBinary(slot) ?? '' });
    const checks = await Array.fromAsync(machineChecks(config, {}));
    const check = checks.find(({ name }) => name === 'tmux');
    const limits = versionLimits(version);
    expect(check).toMatchObject({ ok: true, remedy: null });
    expect(check?.detail.split('; ').slice(1)).toEqual(limits);
    const page = await readFile(join(import.meta.dirname, '../../docs/tmux-versions.md'), 'utf8');
    expect(limits.filter((limit) => !page.includes(limit))).toEqual([]);
  });
});

describe('the limits of a version', () => {
  it('are fewer the newer it is, and none of one that can’t be read', () => {
    const counts = ['3.1c', '3.2a', '3.3a', '3.5a', '3.6', '3.8', 'odd'].map(
      (version) => versionLimits(version).length,
    );
    expect(counts).toEqual([4, 3, 2, 1, 0, 0, 0]);
  });
});
