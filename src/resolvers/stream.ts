import { type AtOnce, atOnce, type Prompt, through } from '../concurrency/prompt.ts';

/**
 * The source of a subscription.
 *
 * Nothing is started before the first read, so a subscription that nobody reads costs nothing.
 * Leaving (`return`, or the caller's signal) aborts what runs, at once, also in the middle of a
 * read, and comes back when that has cleaned up. A source never throws: a transport would end the
 * whole connection for it. What went wrong is its last event instead, and the field throws it.
 */
export interface Failure {
  readonly __typename: 'Failure';
  readonly error: unknown;
}

export function stream<Event>(
  open: (signal: AbortSignal) => AsyncIterable<Event>,
  caller?: AbortSignal,
): Prompt<Event | Failure> {
  const left = new AbortController();
  // A signal is slow to look at, and this is looked at for each event.
  let gone = false;
  const leave = () => {
    gone = true;
    left.abort();
  };
  let events: AsyncIterator<Event, unknown> | undefined;
  let ended = false;
  const end = (): { done: true; value: undefined } => {
    ended = true;
    caller?.removeEventListener('abort', leave);
    return { done: true, value: undefined };
  };
  const below: AtOnce<Event> = through(
    () => events,
    () => !ended && !gone,
  );
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    [atOnce]: {
      wait: below.wait,
      take() {
        try {
          return below.take();
        } catch (error) {
          leave();
          end();
          return { __typename: 'Failure', error };
        }
      },
    },
    async next() {
      if (ended || gone) return end();
      if (events === undefined) {
        if (caller?.aborted) return end();
        caller?.addEventListener('abort', leave, { once: true });
        events = open(left.signal)[Symbol.asyncIterator]();
      }
      try {
        const step = await events.next();
        return step.done === true || gone ? end() : step;
      } catch (error) {
        end();
        return gone
          ? { done: true, value: undefined }
          : { done: false, value: { __typename: 'Failure', error } };
      }
    },
    async return() {
      leave();
      await events?.return?.();
      return end();
    },
    async throw(error) {
      await this.return?.();
      throw error;
    },
  };
}

/** What the field gives for an event: the event, or the failure thrown. */
export function thrown<Event extends object>(event: Event | Failure): Event {
  if (isFailure(event)) throw event.error;
  return event;
}

function isFailure(event: object): event is Failure {
  return '__typename' in event && event.__typename === 'Failure';
}
