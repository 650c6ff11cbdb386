/**
 * An iterator that begins with its first `next`, and that can be ended from outside at any moment:
 * by the signal, or by `return` even while a `next` waits. A bare async generator would make
 * `return` wait for the event that may never come.
 */
export function revocable<T>(
  run: (signal: AbortSignal) => AsyncGenerator<T, void>,
  signal: AbortSignal,
): AsyncIterableIterator<T, void> {
  const own = new AbortController();
  const either = AbortSignal.any([signal, own.signal]);
  let events: AsyncGenerator<T, void> | undefined;
  const end = () => {
    own.abort(new Error('Nobody reads any more.'));
    return events?.return();
  };
  return {
    async next() {
      if (either.aborted) return { done: true, value: undefined };
      events ??= run(either);
      try {
        return await events.next();
      } catch (error) {
        // Cut off while it waited for something: that is an end, not a failure.
        if (either.aborted) return { done: true, value: undefined };
        throw error;
      }
    },
    async return() {
      await end();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
