import { expect, test } from 'vitest';
import { Overload } from '../../../src/tmux/output/overload.ts';

/** Seconds of reads of so many bytes in 5 ms each, with turns of other work and idle time before each. */
function lab() {
  let [now, idle, turns] = [0, 0, 0];
  const clock = { now: () => now, monotonic: () => now, after: () => () => {} };
  const overload = new Overload(clock, 0.6, { idleMs: () => idle, turns: () => turns });
  const second = (bytes: number, otherMs: number, idleMs = 0, inTurns = 1) => {
    let isTooMuch = false;
    for (const end = now + 1_000; now < end; ) {
      now += otherMs + idleMs + 5;
      idle += idleMs;
      turns += inTurns;
      // In two pieces, as it is read.
      for (const ms of [2, 3]) isTooMuch = overload.read(bytes / 2, ms) || isTooMuch;
    }
    return isTooMuch;
  };
  return { overload, second, pass: (ms: number) => (now += ms) };
}

const seconds = (one: () => boolean) => Array.from({ length: 10 }, one);

test('what is read soon is never too much, however much it is', () => {
  const { second } = lab();
  expect(seconds(() => second(65_536, 2, 2))).not.toContain(true);
  // Other processes have the processor now and then.
  expect(seconds(() => second(65_536, 60))).not.toContain(true);
});

test('much that comes after quiet, or little that waits for other work, is not', () => {
  const { second } = lab();
  expect(seconds(() => second(65_536, 0, 900))).not.toContain(true);
  expect(seconds(() => second(1_000, 150))).not.toContain(true);
  // It all fits between tmux and here.
  expect(seconds(() => second(30_000, 150))).not.toContain(true);
});

test('what comes late while the event loop looks for it again and again is not', () => {
  const { second } = lab();
  expect(seconds(() => second(80_000, 300, 0, 30))).not.toContain(true);
});

test('one long turn, or two in a row, are not', () => {
  const { second } = lab();
  const calm = () => second(80_000, 2, 2);
  expect(seconds(() => second(80_000, 900) || second(80_000, 900) || calm())).not.toContain(true);
});

test('three seconds in which much of it waited for other work are', () => {
  const { second } = lab();
  const held = () => second(80_000, 150);
  expect([held(), held(), held()]).toEqual([false, false, true]);
});

test('the rest is longer when it comes again soon, up to 8 s, and short again after calm', () => {
  const { overload, second, pass } = lab();
  const rests: number[] = [];
  for (let round = 0; round < 7; round++) {
    while (!second(80_000, 150));
    rests.push(overload.restMs());
    overload.rested();
  }
  expect(rests).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 8_000]);
  pass(10_000);
  while (!second(80_000, 150));
  expect(overload.restMs()).toBe(250);
});
