import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Epochs } from '../../../src/tmux/output/output-cursor.ts';
import { PaneLog } from '../../../src/tmux/output/pane-log.ts';
import { FakeClock, TellingClock } from '../../support/fake-clock.ts';
import { eventually } from '../../support/tmux-server.ts';

/**
 * A line every so many milliseconds for a second: how often readers were rung, and how late a line was at
 * most. All of them together take `tellingMs`.
 */
async function published(everyMs: number, readers: number, tellingMs = 0) {
  const clock = new TellingClock();
  const log = new PaneLog(0, 1 << 20, new Epochs(), clock);
  let rings = 0;
  let late = 0;
  let waiting: number[] = [];
  const rung = () => {
    rings += 1;
    for (const since of waiting) late = Math.max(late, clock.monotonic() - since);
    waiting = [];
    clock.told += tellingMs;
  };
  log.readers.add({ offer: rung, ring: rung });
  for (let other = 1; other < readers; other++) log.readers.add({ offer() {}, ring() {} });
  for (let at = 0; at < 1_000; at += everyMs) {
    waiting.push(clock.monotonic());
    log.append(Buffer.from('a line\n'));
    log.publish();
    await clock.advance(everyMs);
  }
  const share = clock.told / clock.monotonic();
  await clock.advance(1_000);
  expect(log.published).toBe(log.bytes.end);
  return { rings, late, share };
}

test.each([
  [10, 1],
  [10, 100],
  [10, 400],
  [100, 1_000],
])('a line every %d ms is told %d readers at once', async (everyMs, readers) => {
  expect(await published(everyMs, readers)).toEqual({ rings: 1_000 / everyMs, late: 0, share: 0 });
});

test('lines that come faster are gathered for a moment', async () => {
  const { rings, late } = await published(1, 1);
  expect(rings).toBeLessThan(130);
  expect(rings).toBeGreaterThan(120);
  expect(late).toBeLessThanOrEqual(8);
});

test('where it takes long to tell all readers they are told less often, for half of the time at most', async () => {
  const { late, share } = await published(10, 1_000, 15);
  expect(share).toBeGreaterThan(0.4);
  expect(share).toBeLessThan(0.55);
  expect(late).toBeLessThanOrEqual(2 * 15);
});

test('the pace of before is forgotten by a pane that was quiet', async () => {
  const clock = new FakeClock();
  const log = new PaneLog(0, 1 << 20, new Epochs(), clock);
  const say = () => {
    log.append(Buffer.from('x'));
    log.publish();
  };
  for (let at = 0; at < 100; at++) say();
  expect(log.published).toBe(2);
  await clock.advance(50);
  expect(log.published).toBe(100);
  say();
  expect(log.published).toBe(101);
});

test('telling a thousand readers leaves turns to others, who see the same as all', async () => {
  const clock = new TellingClock();
  const log = new PaneLog(0, 1 << 20, new Epochs(), clock);
  const seen: { readonly reader: number; readonly to: number; readonly turn: number }[] = [];
  let turn = 0;
  const unheard = () => expect.unreachable('it has left');
  const left = { offer: unheard, ring: unheard };
  for (let reader = 0; reader < 1_000; reader++) {
    const rung = () => {
      clock.told += 0.1;
      seen.push({ reader, to: log.published, turn });
      if (reader === 10) log.readers.delete(left);
    };
    log.readers.add({ offer: rung, ring: rung });
  }
  log.readers.add(left);
  log.append(Buffer.from('one'));
  log.publish();
  for (turn = 1; log.published < 6 && turn < 100; turn++) {
    // What comes meanwhile is for the next time.
    if (turn === 2) {
      log.append(Buffer.from('two'));
      log.publish();
    }
    await setImmediate();
  }
  const first = seen.filter(({ to }) => to === 3);
  expect(first.map(({ reader }) => reader)).toEqual([...Array(1_000).keys()]);
  const each = Map.groupBy(first, (told) => told.turn);
  expect(each.size).toBeGreaterThan(10);
  for (const told of each.values()) expect(told.length).toBeLessThanOrEqual(88);
  await eventually(() => seen.length === 2_000, 'all told of both');
  expect(new Set(seen.map(({ reader, to }) => `${reader} ${to}`)).size).toBe(2_000);
});

test('what has to be known at once ends the turns', () => {
  const clock = new TellingClock();
  const log = new PaneLog(0, 1 << 20, new Epochs(), clock);
  const seen: number[] = [];
  for (let reader = 0; reader < 100; reader++) {
    const rung = () => {
      clock.told += 1;
      seen.push(log.published);
    };
    log.readers.add({ offer: rung, ring: rung });
  }
  log.append(Buffer.from('one'));
  log.publish();
  expect(seen.length).toBe(8);
  log.append(Buffer.from('two'));
  log.close({ reason: 'EXITED', exitStatus: 0, exitSignal: null });
  expect(seen.slice(0, 100)).toEqual(Array(100).fill(3));
  expect(seen.slice(100, 200)).toEqual(Array(100).fill(6));
});
