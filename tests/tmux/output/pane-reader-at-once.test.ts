import fc from 'fast-check';
import { expect, it } from 'vitest';
import { atOnce } from '../../../src/concurrency/prompt.ts';
import type { MemberTmux } from '../../../src/tmux/member-tmux.ts';
import { Epochs } from '../../../src/tmux/output/output-cursor.ts';
import { PaneLog, type Snapshot } from '../../../src/tmux/output/pane-log.ts';
import { PaneReader } from '../../../src/tmux/output/pane-reader.ts';
import type { PaneOutputEvent } from '../../../src/tmux/pane-events.ts';
import { FakeClock, settle, TellingClock } from '../../support/fake-clock.ts';
import { rounds } from '../../support/tier.ts';

/** A log with a reader whose snapshots are empty screens at the log's end. */
function begun(signal: AbortSignal, clock = new FakeClock(), limit = 64) {
  const log = new PaneLog(0, limit, new Epochs(), clock);
  const snapshot = async (): Promise<Snapshot> => {
    const { end, epoch } = log.bytes;
    const cursor = log.bytes.cursor(end);
    const screen = { data: Buffer.alloc(0), screen: Buffer.alloc(0), columns: 80, rows: 24 };
    const place = { cursorColumn: 0, cursorRow: 0, alternateScreen: false };
    const taken: Snapshot = {
      ...{ epoch, offset: end, mark: log.lastMark, takenAt: 0, state: 'text' },
      event: {
        ...{ kind: 'snapshot', cursor, at: new Date(0), source: 'CONTROL_CLIENT' },
        ...screen,
        ...place,
      },
    };
    log.keep(taken, true, false);
    return taken;
  };
  const seat = { session: 0, log, snapshot, [Symbol.dispose]: () => {} };
  const host = {
    tmux: { clock } as unknown as MemberTmux,
    draining: new AbortController().signal,
    sit: async () => undefined,
  };
  const pane = { memberId: '', pathHex: '', generation: '', pane: 0 };
  const events = new PaneReader(host, pane, seat, undefined, signal).events();
  return { log, clock, events };
}

it('read at once, as it is offered or by promises, in any order, the events are the same: each byte once, or its gap', async () => {
  const step = fc.constantFrom(
    ...(['say', 'say', 'say much', 'resize', 'at once', 'at once', 'next', 'time'] as const),
    ...(['offered', 'offered once'] as const),
  );
  let offered = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const left = new AbortController();
      const { log, clock, events } = begun(left.signal);
      const lane = events[atOnce];
      const got: PaneOutputEvent[] = [];
      let said = 0;
      let reading: Promise<void> | undefined;
      const next = () => {
        reading ??= events.next().then(({ value }) => {
          reading = undefined;
          if (value !== undefined) got.push(value);
        });
        return settle();
      };
      /** So many more are taken as they are offered. */
      let wanted = 0;
      const offer = (event: PaneOutputEvent) => {
        if (reading !== undefined || wanted-- <= 0) return false;
        got.push(event);
        offered += 1;
        return true;
      };
      const take = async (more: number) => {
        if (reading !== undefined) return await settle();
        const event = lane.take();
        wanted = more;
        if (event !== undefined) got.push(event);
        else if (!lane.wait(() => {}, more > 0 ? offer : undefined)) await next();
      };
      await next();
      for (const each of [...steps, ...Array.from({ length: 12 }, () => 'at once' as const)]) {
        if (each === 'say' || each === 'say much') {
          const text = `${said++} `.padEnd(each === 'say' ? 4 : 50, '.');
          log.append(Buffer.from(text));
          log.publish();
          await settle();
        } else if (each === 'resize') {
          log.sized(80 + got.length, 24);
          await settle();
        } else if (each === 'time') await clock.advance(20);
        else if (each === 'next') await next();
        else {
          await clock.advance(20);
          await take(each === 'offered' ? 1_000 : each === 'offered once' ? 1 : 0);
        }
      }
      expect(got[0]?.kind).toBe('snapshot');
      let at = 0;
      for (const event of got) {
        const to = Number(Buffer.from(event.cursor, 'base64url').readUIntBE(10, 6));
        if (event.kind === 'chunk') expect(event.data.length).toBe(to - at);
        if (event.kind === 'gap') expect(to).toBe(at);
        if (event.kind === 'snapshot' && got[got.indexOf(event) - 1]?.kind !== 'gap')
          expect(to).toBe(at);
        at = to;
      }
      if (reading === undefined) expect(at).toBe(log.bytes.end);
      left.abort();
      await settle();
    }),
    { numRuns: rounds(60, 2_000) },
  );
  expect(offered).toBeGreaterThan(0);
});

it('who leaves while it waits for a ring is rung once, and then there is nothing', async () => {
  const left = new AbortController();
  const { log, events } = begun(left.signal);
  await events.next();
  const lane = events[atOnce];
  let rings = 0;
  expect(lane.wait(() => (rings += 1))).toBe(true);
  left.abort();
  expect(rings).toBe(1);
  log.append(Buffer.from('x'));
  log.publish();
  expect([rings, lane.take(), lane.wait(() => {})]).toEqual([1, undefined, false]);
  expect(await events.next()).toEqual({ done: true, value: undefined });
});

it.each([
  ['cut', 65_536 + 10],
  ['whole', 65_536],
])('who has all of a stretch (%s) and waits again is not told of it once more', async (_, to) => {
  const clock = new TellingClock();
  const { log, events } = begun(new AbortController().signal, clock, 1 << 20);
  await events.next();
  const slow = () => (clock.told += 20);
  // After them a turn is over.
  for (let other = 0; other < 8; other++) log.readers.add({ offer: slow, ring: slow });
  const lane = events[atOnce];
  const read = () => {
    let bytes = 0;
    for (let event = lane.take(); event !== undefined; event = lane.take())
      bytes += event.kind === 'chunk' ? event.data.length : 0;
    return bytes;
  };
  log.append(Buffer.alloc(65_536 - 10, 'x'));
  log.publish();
  await clock.advance(1_000);
  expect(read()).toBe(65_536 - 10);
  log.append(Buffer.alloc(to - log.bytes.end, 'x'));
  log.publish();
  // Of the others some are told already, and it comes in front of the rest.
  expect(read()).toBe(to - (65_536 - 10));
  let rings = 0;
  const again = () => {
    rings += 1;
    if (rings < 100) lane.wait(again, () => false);
  };
  expect(lane.wait(again, () => false)).toBe(true);
  await clock.advance(1_000);
  expect(rings).toBe(0);
  log.append(Buffer.from('x'));
  log.publish();
  await clock.advance(1_000);
  expect([rings, read()]).toEqual([1, 1]);
});
