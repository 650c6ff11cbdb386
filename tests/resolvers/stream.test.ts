import { describe, expect, it } from 'vitest';
import { Bell } from '../../src/concurrency/bell.ts';
import { stream, thrown } from '../../src/resolvers/stream.ts';

/** A source that counts how often it runs, and waits for ever after its first event. */
function source() {
  const state = { running: 0, opened: 0 };
  const open = async function* (signal: AbortSignal) {
    state.opened += 1;
    state.running += 1;
    try {
      yield { text: 'first' };
      await new Bell().wait(signal);
    } finally {
      state.running -= 1;
    }
  };
  return { state, open };
}

describe('a stream', () => {
  it('starts nothing before it is read', async () => {
    const { state, open } = source();
    const events = stream(open);
    await events.return?.();
    expect(state).toEqual({ running: 0, opened: 0 });
    expect(await events.next()).toEqual({ done: true, value: undefined });
    expect(state.opened).toBe(0);
  });

  it('leaves nothing when it is left in the middle of a read', async () => {
    const { state, open } = source();
    const events = stream(open);
    expect(await events.next()).toEqual({ done: false, value: { text: 'first' } });
    const reading = events.next();
    expect(state.running).toBe(1);
    await events.return?.();
    expect(await reading).toEqual({ done: true, value: undefined });
    expect(state.running).toBe(0);
  });

  it('ends when its caller is gone', async () => {
    const { state, open } = source();
    const caller = new AbortController();
    const events = stream(open, caller.signal);
    await events.next();
    const reading = events.next();
    caller.abort();
    expect(await reading).toEqual({ done: true, value: undefined });
    expect(state.running).toBe(0);
  });

  it('never starts for a caller that is gone already', async () => {
    const { state, open } = source();
    expect(await stream(open, AbortSignal.abort()).next()).toEqual({
      done: true,
      value: undefined,
    });
    expect(state.opened).toBe(0);
  });

  it('gives a failure as its last event, for the field to throw', async () => {
    const broken = new Error('broken');
    const events = stream(async function* () {
      yield { text: 'first' };
      throw broken;
    });
    await events.next();
    const { value } = await events.next();
    expect(() => thrown(value ?? {})).toThrow(broken);
    expect(await events.next()).toEqual({ done: true, value: undefined });
  });
});
