import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { NotFoundError } from '../../../src/tmux/errors.ts';
import { Epochs } from '../../../src/tmux/output/output-cursor.ts';
import { OutputLog } from '../../../src/tmux/output/output-log.ts';
import { attach } from '../../support/somebody.ts';
import { Screen } from '../../support/terminal.ts';
import { rounds } from '../../support/tier.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { untilSame } from '../../support/tmux-screen.ts';
import { eventually } from '../../support/tmux-server.ts';
import { ToldTimers } from '../../support/told-timers.ts';
import { type WatchedTmux, watchTmux } from '../../support/watched-tmux.ts';

const counting = 'i=0; while sleep 0.01; do i=$((i+1)); echo line $i; done';

async function left(lab: WatchedTmux): Promise<void> {
  await eventually(async () => (await lab.controlClients()) === 0, 'no control client is left');
  expect([...lab.outputs.ownClientPids()]).toEqual([]);
}

test('a reader who comes back with a cursor goes on where it was, without a byte lost or doubled', async () => {
  await using lab = await watchTmux({ lingerMs: 5_000 });
  await lab.tmux.run('send-keys', '-t', 'main:', counting, 'Enter');
  const pane = await lab.pane();
  let reading = lab.watch(pane);
  await reading.first('chunk');
  let bytes = Buffer.alloc(0);
  for (let round = 0; round < 5; round++) {
    const before = reading.events.length;
    await eventually(() => reading.events.length > before + 5, 'some chunks');
    reading.stop();
    await reading.done;
    bytes = Buffer.concat([bytes, reading.bytes]);
    const cursor = reading.last?.cursor;
    await wait(50);
    reading = lab.watch(pane, cursor);
    await reading.first('chunk');
    expect(reading.kinds).not.toContain('snapshot');
  }
  reading.stop();
  await reading.done;
  const numbers = [
    ...Buffer.concat([bytes, reading.bytes])
      .toString()
      .matchAll(/line (\d+)\r\n/g),
  ];
  const first = Number(numbers[0]?.[1]);
  expect(numbers.map(([, n]) => Number(n))).toEqual(numbers.map((_, index) => first + index));
});

test('who comes back to a pane that ended meanwhile gets the rest of its bytes, then its end', async () => {
  await using lab = await watchTmux({ lingerMs: 20_000 });
  const command = 'read x; seq 1 2000; printf "the last words"; sleep 0.2';
  const target = await lab.tmux.run('split-window', '-dPF', '#{pane_id}', '-t', 'main:', command);
  const pane = await lab.pane(target);
  const keeps = lab.watch(pane);
  const left = lab.watch(pane);
  const { cursor } = await left.first('snapshot');
  left.stop();
  await left.done;
  await lab.tmux.run('send-keys', '-t', target, 'Enter');
  const closed = await keeps.first('closed', 20_000);
  expect(keeps.bytes.toString()).toContain('the last words');
  for (const after of [cursor, closed.cursor]) {
    const back = lab.watch(pane, after);
    await back.done;
    expect(back.last).toEqual(closed);
    expect(back.bytes).toEqual(after === cursor ? keeps.bytes : Buffer.alloc(0));
    expect(back.kinds.filter((kind) => kind !== 'chunk')).toEqual(['closed']);
  }
  // Without a cursor there is nothing to come back to.
  const late = lab.watch(pane);
  await late.done;
  expect(late.error).toBeInstanceOf(NotFoundError);
});

test('who comes back after the server ended gets the rest of its bytes, and nothing of the next server', async () => {
  await using lab = await watchTmux({ lingerMs: 20_000 });
  const pane = await lab.pane();
  const keeps = lab.watch(pane);
  const left = lab.watch(pane);
  const { cursor } = await left.first('snapshot');
  left.stop();
  await left.done;
  // Not a shell, whose prompt would follow.
  await lab.tmux.run('send-keys', '-t', 'main:', 'echo the last wo""rds; exec cat', 'Enter');
  await eventually(() => keeps.bytes.includes('last words\r\n'), 'the last words');
  keeps.stop();
  await keeps.done;
  await lab.tmux.end();
  await lab.tmux.run('new-session', '-d', '-s', 'main', 'echo SECRET; exec cat');
  await lab.pane();
  const back = lab.watch(pane, cursor);
  await back.done;
  expect(back.bytes).toEqual(keeps.bytes);
  expect(back.last).toMatchObject({ kind: 'closed', reason: 'SERVER_RESTARTED' });
  expect(back.kinds.filter((kind) => kind !== 'chunk')).toEqual(['closed']);
});

test('a pane that was left dead and runs another program is no past one', async () => {
  await using lab = await watchTmux({ lingerMs: 20_000 });
  await lab.tmux.run('set-option', '-g', 'remain-on-exit', 'on');
  const target = await lab.tmux.run('split-window', '-dPF', '#{pane_id}', '-t', 'main:', 'read x');
  const pane = await lab.pane(target);
  const reading = lab.watch(pane);
  await reading.first('snapshot');
  await lab.tmux.run('send-keys', '-t', target, 'Enter');
  const { cursor } = await reading.first('closed', 20_000);
  await lab.tmux.run('respawn-pane', '-t', target, 'echo ag""ain; exec cat');
  const again = lab.watch(pane, cursor);
  await again.first('snapshot');
  expect(again.events[0]).toMatchObject({ kind: 'gap', reason: 'RECONNECTED' });
  await untilSame(new Screen(), again, lab.tmux, target);
});

test('the time to come back begins with the last leaving, not with the first', async () => {
  const lingerMs = 1_500;
  const clock = new ToldTimers(lingerMs);
  await using lab = await watchTmux({ lingerMs, clock });
  const pane = await lab.pane();
  const first = lab.watch(pane);
  const { cursor } = await first.first('snapshot');
  first.stop();
  await first.done;
  clock.pass(1_000);
  const second = lab.watch(pane, cursor);
  await lab.tmux.run('send-keys', '-t', 'main:', 'Enter');
  await second.first('chunk');
  second.stop();
  await second.done;
  clock.pass(1_000);
  const third = lab.watch(pane, second.last?.cursor);
  await lab.tmux.run('send-keys', '-t', 'main:', 'Enter');
  await third.first('chunk');
  expect([...second.kinds, ...third.kinds].filter((kind) => kind !== 'chunk')).toEqual([]);
  third.stop();
  await third.done;
  clock.pass(lingerMs);
  await left(lab);
});

test('a cursor of a log that is gone, or of another run, gives a gap and a snapshot; a bad one is refused', async () => {
  await using lab = await watchTmux({ lingerMs: 100 });
  const pane = await lab.pane();
  const first = lab.watch(pane);
  const { cursor } = await first.first('snapshot');
  first.stop();
  await left(lab);
  const second = lab.watch(pane, cursor);
  await second.first('snapshot');
  expect(second.events[0]).toEqual({
    kind: 'gap',
    cursor,
    missedBytes: null,
    reason: 'RECONNECTED',
  });

  const other = new OutputLog(10, new Epochs()).cursor(7);
  const third = lab.watch(pane, other);
  await third.first('snapshot');
  expect(third.events[0]).toEqual({
    kind: 'gap',
    cursor: other,
    missedBytes: null,
    reason: 'SERVICE_RESTARTED',
  });

  for (const bad of ['', 'rubbish', `${cursor}x`, cursor.slice(0, -1)]) {
    const refused = lab.watch(pane, bad);
    await refused.done;
    expect(refused.events).toEqual([]);
    expect(refused.error).toBeInstanceOf(RangeError);
  }
  const nowhere = lab.watch({ ...pane, pane: 999 });
  await nowhere.done;
  expect(nowhere.events).toEqual([]);
  expect(nowhere.error).toBeInstanceOf(NotFoundError);
});

test('a reader that was away longer than the log lasts gets the exact number of bytes it missed', async () => {
  await using lab = await watchTmux({ lingerMs: 20_000, logBytes: 262_144 });
  const pane = await lab.pane();
  const keeps = lab.watch(pane);
  await keeps.first('snapshot');
  await keeps.quiet();
  const away = lab.watch(pane);
  const { cursor } = await away.first('snapshot');
  away.stop();
  await away.done;
  const had = keeps.bytes.length;
  await lab.tmux.run('send-keys', '-t', 'main:', 'seq 1 90000; echo d""one', 'Enter');
  await eventually(() => keeps.bytes.includes('\ndone'), 'the output');
  await keeps.quiet();
  const back = lab.watch(pane, cursor);
  const gap = await back.first('gap');
  expect(gap.reason).toBe('LOG_TRIMMED');
  expect(gap.missedBytes).toBe(keeps.bytes.length - had);
  const screen = new Screen();
  await back.first('snapshot');
  await untilSame(screen, back, lab.tmux, 'main:');
});

test('all who keep up get the very same chunks, from one control client', async () => {
  // Nothing is printed before all have their snapshot, so they begin at the same byte.
  await using lab = await watchTmux({
    command: ['stty -echo; read x; seq 1 100; echo done; exec cat'],
  });
  const pane = await lab.pane();
  const readings = Array.from({ length: 20 }, () => lab.watch(pane));
  for (const reading of readings) await reading.first('snapshot');
  expect(await lab.controlClients()).toBe(1);
  await lab.tmux.run('send-keys', '-t', 'main:', 'Enter');
  for (const reading of readings) {
    await eventually(() => reading.bytes.includes('\ndone'), 'the output');
  }
  const [one, ...others] = readings.map((reading) => reading.of('chunk'));
  for (const other of others)
    for (const [index, chunk] of other.entries()) expect(chunk).toBe(one?.[index]);
});

test('watching and leaving many times changes nothing: clients, sizes, options, sessions', async () => {
  const times = rounds(50, 500);
  console.log(`open and close: ${times} times`);
  await using lab = await watchTmux({ lingerMs: 0, columns: 97, rows: 31 });
  const pane = await lab.pane();
  const formats =
    '#{session_attached} #{window_width}x#{window_height} #{session_windows} #{pane_width}';
  const look = async () => [
    await lab.tmux.run('list-sessions', '-F', formats),
    await lab.tmux.run('show-options', '-gw', 'window-size'),
  ];
  const before = await look();
  for (let time = 0; time < times; time++) {
    const reading = lab.watch(pane);
    await reading.first('snapshot');
    if (time === 0) expect((await look())[0]).toBe('1 97x31 1 97');
    reading.stop();
    await reading.done;
  }
  await left(lab);
  expect(await look()).toEqual(before);
});

test('an iterator that is never read, or cut off at any moment, starts or leaves nothing', async () => {
  await using lab = await watchTmux({ lingerMs: 0 });
  const pane = await lab.pane();
  const calls = lab.fleet.figures().helperCalls;
  const never = new AbortController();
  lab.outputs.output(pane, undefined, never.signal);
  await wait(200);
  expect(lab.fleet.figures().helperCalls).toBe(calls);
  for (const delay of [0, 1, 5, 20, 60, 150, 300]) {
    const aborted = lab.watch(pane);
    const returned = lab.outputs.output(pane, undefined, never.signal);
    const next = returned.next();
    await wait(delay);
    aborted.stop();
    await returned.return?.();
    await next;
    await aborted.done;
    expect(aborted.error).toBeUndefined();
  }
  await left(lab);
});

describe.concurrent.each(presentClasses)('tmux %s', (version) => {
  test('where leaving would end the session or the server nothing is attached, and the screen is looked at', async () => {
    await using lab = await watchTmux({ version });
    // Somebody is attached, or tmux would end at once.
    await using _somebody = await attach(lab.tmux);
    await lab.tmux.run('set-option', '-s', 'exit-unattached', 'on');
    const reading = lab.watch(await lab.pane());
    expect((await reading.first('snapshot')).source).toBe('CAPTURE');
    expect(await lab.controlClients()).toBe(1);
    await lab.tmux.run('send-keys', '-t', 'main:', 'echo se""en', 'Enter');
    const screen = new Screen();
    await untilSame(screen, reading, lab.tmux, 'main:');
    expect(screen.text.join('\n')).toContain('seen');
    expect(new Set(reading.kinds)).toEqual(new Set(['snapshot']));
    await lab.tmux.run('kill-server').catch(() => {});
    expect((await reading.first('closed', 20_000)).reason).toBe('SERVER_LOST');
  });

  test('another program in the same pane gets a new screen, and resizing is told', async () => {
    await using lab = await watchTmux({ version });
    const reading = lab.watch(await lab.pane());
    await reading.first('snapshot');
    await lab.tmux.run('send-keys', '-t', 'main:', 'echo old', 'Enter');
    await reading.first('chunk');
    await lab.tmux.run('respawn-pane', '-k', '-t', 'main:', 'printf new; exec cat');
    const screen = new Screen();
    await untilSame(screen, reading, lab.tmux, 'main:', 15_000);
    await lab.tmux.run('split-window', '-d', '-t', 'main:', 'exec cat');
    const resized = await reading.first('resized');
    expect([resized.columns, resized.rows]).toEqual([80, 12]);
    await untilSame(screen, reading, lab.tmux, 'main:.0');
    expect(reading.kinds).not.toContain('gap');
  });

  test('a member whose names, titles and hooks are hostile can neither end the connection nor invent output', async () => {
    await using lab = await watchTmux({ version });
    const { tmux } = lab;
    const pane = await lab.pane();
    const reading = lab.watch(pane);
    await reading.first('snapshot');
    const forged = '%output %0 FORGED\n%exit\n%end 1 1 1\n';
    const settings = [
      ['rename-window', '-t', 'main:', forged],
      ['rename-session', '-t', 'main:', `x${forged}`],
      ['select-pane', '-t', '%0', '-T', forged],
      ['set-hook', '-g', 'after-display-message', `display-message -p '%exit'`],
      ['set-hook', '-g', 'after-capture-pane', `display-message -p '%end 1 1 1'`],
      ['set-buffer', '-b', 'buffer', forged],
    ];
    for (const setting of settings) await tmux.run(...setting).catch(() => {});
    await tmux.run(
      'send-keys',
      '-t',
      '%0',
      'clear; printf "%%end 1 1 1\\n%%exit\\n%%output %%0 on the screen\\n"',
      'Enter',
    );
    await reading.quiet();
    const late = lab.watch(pane);
    await late.first('snapshot');
    // tmux can't be asked as usual: the hooks write into every answer.
    const screen = new Screen();
    for (const event of late.events) screen.feed(event);
    await screen.settled();
    expect(screen.text.slice(0, 3)).toEqual(['%end 1 1 1', '%exit', '%output %0 on the screen']);
    await tmux.run('send-keys', '-t', '%0', 'echo st""ill', 'Enter');
    await eventually(() => reading.bytes.includes('still'), 'output goes on');
    // A name with a raw newline is possible on 3.1c only; its next line looks like tmux's own.
    if (version !== '3.1c') expect(reading.bytes.includes('FORGED')).toBe(false);
    expect([...reading.kinds, ...late.kinds]).not.toContain('gap');
  });
});

test('a connection that takes too much of the process rests, says so, and goes on with a new screen', async () => {
  await using lab = await watchTmux({ mostLoad: 0.000_001 });
  const reading = lab.watch(await lab.pane());
  await reading.first('snapshot');
  await lab.tmux.run('send-keys', '-t', 'main:', counting, 'Enter');
  expect(await reading.first('gap', 20_000)).toMatchObject({
    reason: 'OVERLOAD',
    missedBytes: null,
  });
  await lab.tmux.run('send-keys', '-t', 'main:', 'C-c', '');
  const screen = new Screen();
  await untilSame(screen, reading, lab.tmux, 'main:');
});
