/**
 * An iterator that begins with its first `next`, and that can be ended from outside at any moment:
 * by the signal, or by `return` even while a `next` waits. A bare async generator would make
 * `return` wait for the event that may never come.
 */
export function revocable<T>(
  open: (signal: AbortSignal) => Promise<AsyncIterator<T, void>>,
  signal: AbortSignal,
): AsyncIterableIterator<T, void> {
  // A signal that is composed of two is slow to look at, and this one is looked at for each event.
  const own = new AbortController();
  const revoke = () => own.abort(signal.reason);
  let events: AsyncIterator<T, void> | undefined;
  const end = (): { done: true; value: undefined } => {
    signal.removeEventListener('abort', revoke);
    return { done: true, value: undefined };
  };
  return {
    async next() {
      if (own.signal.aborted || signal.aborted) return end();
      try {
        if (events === undefined) {
          signal.addEventListener('abort', revoke, { once: true });
          events = await open(own.signal);
        }
        const step = await events.next();
        return step.done === true ? end() : step;
      } catch (error) {
        const cutOff = own.signal.aborted;
        end();
        // Cut off while it waited for something: that is an end, not a failure.
        if (cutOff) return end();
        throw error;
      }
    },
    async return() {
      own.abort(new Error('Nobody reads any more.'));
      await events?.return?.();
      return end();
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
