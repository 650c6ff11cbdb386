import { expect, test } from 'vitest';
import { LoadMeter } from '../../../src/tmux/output/load-meter.ts';

/** Time that passes only when told. */
function clock() {
  let now = 0;
  return {
    now: () => now,
    monotonic: () => now,
    after: () => () => {},
    pass(ms: number) {
      now += ms;
    },
  };
}

test('only three busy seconds in a row are too much; a burst and a rest never are', () => {
  const time = clock();
  const meter = new LoadMeter(time, 0.5);
  const second = (busy: number) => {
    time.pass(1_000);
    return meter.add(busy);
  };
  expect([second(900), second(900), second(100), second(900), second(900)]).toEqual([
    false,
    false,
    false,
    false,
    false,
  ]);
  expect(second(900)).toBe(true);
  meter.reset();
  expect([second(100), second(900), second(900)]).toEqual([false, false, false]);
  expect(second(900)).toBe(true);
  meter.reset();
  expect(second(900)).toBe(true);
});
