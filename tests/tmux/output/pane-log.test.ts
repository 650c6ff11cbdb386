import { expect, test } from 'vitest';
import { Epochs } from '../../../src/tmux/output/output-cursor.ts';
import { PaneLog } from '../../../src/tmux/output/pane-log.ts';
import { FakeClock } from '../../support/fake-clock.ts';

/** Time goes by while readers are told as well. */
class TellingClock extends FakeClock {
  told = 0;

  override monotonic(): number {
    return super.monotonic() + this.told;
  }
}

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
    log.bell.add(rung);
  };
  log.bell.add(rung);
  for (let other = 1; other < readers; other++) {
    const again = () => log.bell.add(again);
    again();
  }
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
