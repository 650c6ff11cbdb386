import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { StaleGenerationError } from '../../../src/tmux/errors.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually } from '../../support/tmux-server.ts';
import { type WatchedTmux, watchTmux } from '../../support/watched-tmux.ts';

async function closing(lab: WatchedTmux, target: string, act: () => Promise<unknown>) {
  const reading = lab.watch(await lab.pane(target));
  await reading.first('snapshot');
  await act();
  const closed = await reading.first('closed', 20_000);
  await reading.done;
  expect(reading.finished).toBe(true);
  expect(reading.last).toBe(closed);
  return { reading, closed };
}

/** What tmux itself says; it may never learn how a program ended that it has not reaped. */
async function deathOf(lab: WatchedTmux, target: string) {
  const formats = '#{pane_dead},#{pane_dead_status},#{pane_dead_signal}';
  const said = await lab.tmux.run('display-message', '-p', '-t', target, formats);
  const [dead, status, signal] = said.split(',');
  expect(dead).toBe('1');
  return { exitStatus: status ? Number(status) : null, exitSignal: signal ? Number(signal) : null };
}

/** A pane of its own, beside the first one. */
async function besides(lab: WatchedTmux, command: string): Promise<string> {
  return await lab.tmux.run('split-window', '-d', '-P', '-F', '#{pane_id}', '-t', 'main:', command);
}

describe.concurrent.each(presentClasses)('tmux %s', (version) => {
  test('what ended is told: a program, a pane, a window, a session', async () => {
    await using lab = await watchTmux({ version, rows: 50 });
    const { tmux } = lab;
    const type = (target: string) => tmux.run('send-keys', '-t', target, 'Enter');

    const ending = await besides(lab, 'read x; printf "the last words"; sleep 0.3; exit 3');
    const ended = await closing(lab, ending, () => type(ending));
    expect(ended.closed).toMatchObject({ reason: 'EXITED', exitStatus: null });
    expect(ended.reading.bytes.toString()).toContain('the last words');

    // tmux keeps a log of commands from 3.2 on.
    const killed = version === '3.1c' ? 'EXITED' : 'PANE_KILLED';
    const target = await besides(lab, 'exec cat');
    const byPane = await closing(lab, target, () => tmux.run('kill-pane', '-t', target));
    expect(byPane.closed.reason).toBe(killed);
    const inWindow = await tmux.run('new-window', '-dPF', '#{pane_id}', '-t', 'main:', 'cat');
    const byWindow = await closing(lab, inWindow, () => tmux.run('kill-window', '-t', inWindow));
    expect(byWindow.closed.reason).toBe(killed);

    // Another pane was killed before: that says nothing about this one.
    const second = await besides(lab, 'read x');
    const byItself = await closing(lab, second, () => type(second));
    expect(byItself.closed.reason).toBe('EXITED');

    await tmux.run('new-session', '-d', '-s', 'other', 'exec cat');
    const bySession = await closing(lab, 'other:', () => tmux.run('kill-session', '-t', 'other'));
    expect(bySession.closed.reason).toBe('SESSION_KILLED');
  });

  test('a pane that stays after its program ended shows all of it, and says how it ended', async () => {
    await using lab = await watchTmux({ version, rows: 50 });
    const { tmux } = lab;
    await tmux.run('set-option', '-g', 'remain-on-exit', 'on');
    // tmux may drop what a program writes in the moment of its end.
    const target = await besides(lab, 'read x; printf "the very last words"; exit 3');
    const { closed, reading } = await closing(lab, target, () =>
      tmux.run('send-keys', '-t', target, 'Enter'),
    );
    const death = await deathOf(lab, target);
    expect([null, 3]).toContain(death.exitStatus);
    expect(closed).toMatchObject({ reason: 'EXITED', ...death });
    const seen = Buffer.concat([reading.bytes, reading.of('snapshot').at(-1)?.data ?? Buffer.of()]);
    expect(seen.toString()).toContain('the very last words');
    const late = lab.watch(await lab.pane(target));
    await late.done;
    expect(late.kinds).toEqual(['snapshot', 'closed']);
  });

  test('a pane that moves, or is linked in two sessions, goes on where it is: a gap, and a new screen', async () => {
    await using lab = await watchTmux({ version });
    const { tmux } = lab;
    await tmux.run('new-session', '-d', '-s', 'other', 'exec cat');
    await tmux.run('link-window', '-s', 'main:', '-t', 'other:5');
    const linked = lab.watch(await lab.pane('other:5'));
    await linked.first('snapshot');
    await tmux.run('kill-session', '-t', 'main');
    await linked.first('gap', 20_000);
    await eventually(() => linked.of('snapshot').length === 2, 'a second snapshot');
    await tmux.run('send-keys', '-t', 'other:5', 'echo st""ill', 'Enter');
    await eventually(() => linked.bytes.includes('still'), 'output goes on');

    await tmux.run('new-session', '-d', '-s', 'third', 'exec cat');
    const target = await tmux.run('split-window', '-dPF', '#{pane_id}', '-t', 'other:5', 'exec sh');
    const moved = lab.watch(await lab.pane(target));
    await moved.first('snapshot');
    await tmux.run('join-pane', '-d', '-s', target, '-t', 'third:');
    expect(await moved.first('gap', 20_000)).toMatchObject({
      reason: 'RECONNECTED',
      missedBytes: null,
    });
    await eventually(() => moved.of('snapshot').length === 2, 'a second snapshot');
    await tmux.run('send-keys', '-t', target, 'echo mo""ved', 'Enter');
    await eventually(() => moved.bytes.includes('moved'), 'output at the new place');
    expect([...moved.kinds, ...linked.kinds]).not.toContain('closed');
  });

  test('no byte of another session or another generation comes under an old id', async () => {
    await using lab = await watchTmux({ version });
    const { tmux } = lab;
    await tmux.run('set-option', '-g', 'detach-on-destroy', 'off');
    await tmux.run('new-session', '-d', '-s', 'other', 'exec cat');
    await tmux.run('send-keys', '-t', 'main:', 'while sleep 0.05; do echo SECRET-1; done', 'Enter');
    const moved = await closing(lab, 'other:', () => tmux.run('kill-session', '-t', 'other'));
    expect(moved.closed.reason).toBe('SESSION_KILLED');
    expect(moved.reading.bytes.includes('SECRET')).toBe(false);
    await eventually(async () => (await lab.controlClients()) === 0, 'no control client stays');

    const kept = await lab.pane();
    const id = await tmux.run('display-message', '-p', '-t', 'main:', '#{pane_id}');
    const lost = await closing(lab, 'main:', () => tmux.end());
    expect(lost.closed.reason).toBe('SERVER_LOST');
    await tmux.run('new-session', '-d', '-s', 'main', 'echo SECRET-2; exec cat');
    expect(await tmux.run('display-message', '-p', '-t', 'main:', '#{pane_id}')).toBe(id);
    const early = lab.watch(kept);
    await early.done;
    const current = await lab.pane();
    const late = lab.watch(kept);
    await late.done;
    for (const reading of [early, late]) {
      expect(reading.events).toEqual([]);
      expect(reading.error).toBeInstanceOf(StaleGenerationError);
    }
    expect(late.error).toMatchObject({ expected: kept.generation, current: current.generation });
  });

  test('an id whose server was replaced behind the listing is refused by the helper', async () => {
    await using lab = await watchTmux({ version });
    const { tmux } = lab;
    const kept = await lab.pane();
    await tmux.end();
    await tmux.run('new-session', '-d', '-s', 'main', 'echo SECRET-2; exec cat');
    const reading = lab.watch(kept);
    await reading.done;
    expect(reading.events).toEqual([]);
    expect(reading.error).toBeInstanceOf(StaleGenerationError);
  });

  test('when a tmux command crashes the server nothing is repeated in haste', async () => {
    await using lab = await watchTmux({ version });
    const { tmux, fleet } = lab;
    await tmux.run('new-window', '-d', '-t', 'main:7', 'exec cat');
    await tmux.run('new-session', '-d', '-s', 'other', 'exec cat');
    const pid = await tmux.pid();
    const reading = lab.watch(await lab.pane());
    await reading.first('snapshot');
    const calls = fleet.figures().helperCalls;
    await tmux
      .run('select-window', '-t', 'main:7', ';', 'kill-session', '-t', 'main')
      .catch(() => {});
    const closed = await reading.first('closed', 20_000);
    const state = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => 'gone) Z');
    expect(closed.reason).toBe(/\) [ZX]/.test(state) ? 'SERVER_LOST' : 'SESSION_KILLED');
    expect(fleet.figures().helperCalls - calls).toBeLessThan(5);
  });
});

test('a program killed by a signal under remain-on-exit says which', async () => {
  await using lab = await watchTmux();
  await lab.tmux.run('set-option', '-g', 'remain-on-exit', 'on');
  const target = await besides(lab, 'exec sleep 1000');
  const pid = Number(await lab.tmux.run('display-message', '-p', '-t', target, '#{pane_pid}'));
  const { closed } = await closing(lab, target, async () => process.kill(pid, 'SIGUSR1'));
  const death = await deathOf(lab, target);
  expect([null, 10]).toContain(death.exitSignal);
  expect(closed).toMatchObject({ reason: 'EXITED', ...death });
});

test('a service that drains says so in every stream, and leaves nothing attached', async () => {
  await using lab = await watchTmux();
  const reading = lab.watch(await lab.pane());
  await reading.first('snapshot');
  await lab.outputs.drain();
  await reading.done;
  expect(reading.last).toMatchObject({ kind: 'closed', reason: 'SERVICE_DRAINING' });
  expect(await lab.controlClients()).toBe(0);
  const late = lab.watch(await lab.pane());
  await late.done;
  expect(late.events).toMatchObject([{ kind: 'closed', reason: 'SERVICE_DRAINING' }]);
});
