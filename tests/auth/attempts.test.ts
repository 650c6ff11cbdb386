import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Attempts } from '../../src/auth/attempts.ts';
import { FakeClock } from '../support/fake-clock.ts';

it('allows five in a window, and says when one more is', async () => {
  const clock = new FakeClock();
  const attempts = new Attempts(5, 900_000, clock);
  for (const left of [4, 3, 2, 1]) {
    expect(attempts.take('alice')).toEqual({ allowed: true, left, retryInMs: 0 });
    await clock.advance(1_000);
  }
  expect(attempts.take('alice')).toMatchObject({ allowed: true, left: 0, retryInMs: 896_000 });
  expect(attempts.take('alice')).toMatchObject({ allowed: false, left: 0, retryInMs: 896_000 });
  expect(attempts.take('bob')).toMatchObject({ allowed: true, left: 4 });
  await clock.advance(896_000);
  expect(attempts.take('alice')).toMatchObject({ allowed: true, left: 0, retryInMs: 1_000 });
});

it('forgets what is given back', () => {
  const attempts = new Attempts(2, 1_000, new FakeClock());
  for (let round = 0; round < 10; round += 1) {
    expect(attempts.take('a').allowed).toBe(true);
    attempts.giveBack('a');
  }
});

it('never allows more than the limit in any window, whatever the times', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(400), { maxLength: 60 }), async (pauses) => {
      const clock = new FakeClock();
      const attempts = new Attempts(3, 1_000, clock);
      const allowed: number[] = [];
      for (const pause of pauses) {
        await clock.jump(pause);
        if (attempts.take('a').allowed) allowed.push(clock.monotonic());
      }
      for (const [index, time] of allowed.entries()) {
        const fourth = allowed[index + 3];
        if (fourth !== undefined) expect(fourth - time).toBeGreaterThanOrEqual(1_000);
      }
    }),
    { numRuns: 20 },
  );
});

it('keeps a bounded number of keys', () => {
  const attempts = new Attempts(1, 1_000, new FakeClock(), 2);
  attempts.take('a');
  attempts.take('b');
  attempts.take('c');
  expect(attempts.take('c').allowed).toBe(false);
  expect(attempts.take('b').allowed).toBe(false);
  expect(attempts.take('a').allowed).toBe(true);
});
