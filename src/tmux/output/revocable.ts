import { atOnce, type Prompt, through } from '../../concurrency/prompt.ts';

/**
 * An iterator that begins with its first `next`, and that can be ended from outside at any moment:
 * by the signal, or by `return` even while a `next` waits. A bare async generator would make
 * `return` wait for the event that may never come.
 */
export function revocable<T>(
  open: (signal: AbortSignal) => Promise<AsyncIterator<T, void>>,
  signal: AbortSignal,
): Prompt<T> {
  const own = new AbortController();
  // A signal is slow to look at, and this is looked at for each event.
  let revoked = false;
  const revoke = () => {
    revoked = true;
    own.abort(signal.reason);
  };
  let events: AsyncIterator<T, void> | undefined;
  const end = (): { done: true; value: undefined } => {
    signal.removeEventListener('abort', revoke);
    return { done: true, value: undefined };
  };
  return {
    [atOnce]: through(
      () => events,
      () => !revoked,
    ),
    async next() {
      if (revoked) return end();
      try {
        if (events === undefined) {
          if (signal.aborted) return end();
          signal.addEventListener('abort', revoke, { once: true });
          events = await open(own.signal);
        }
        const step = await events.next();
        return step.done === true ? end() : step;
      } catch (error) {
        end();
        // Cut off while it waited for something: that is an end, not a failure.
        if (revoked) return end();
        throw error;
      }
    },
    async return() {
      revoked = true;
      own.abort(new Error('Nobody reads any more.'));
      await events?.return?.();
      return end();
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
