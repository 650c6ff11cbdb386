/**
 * An iterator that can be read without a promise as long as nothing has to be done for its next event
 * but to take it: a thousand who read the same are then served by one plain loop.
 *
 *   take   the next event, where it is there
 *   wait   calls `ring` once, when there may be one again
 *
 * Both only while no `next` is under way. Where `take` has nothing and `wait` is not possible, it is
 * for `next` to say what there is: an end, an error, or something that takes time. It gives whatever
 * comes, so these two are never needed.
 */
export const atOnce = Symbol('at once');

export interface AtOnce<Event> {
  take(): Event | undefined;
  /** False: ask `next`. A ring promises nothing: `take` may find nothing, and `wait` be impossible. */
  wait(ring: () => void): boolean;
}

export interface Prompt<Event> extends AsyncIterableIterator<Event, void> {
  readonly [atOnce]: AtOnce<Event>;
}

export function isPrompt<Event>(
  iterator: AsyncIterator<Event, unknown> | undefined,
): iterator is Prompt<Event> {
  return iterator !== undefined && atOnce in iterator;
}

/** For an iterator over another: as prompt as that one, once there is one, and while it may be read. */
export function over<Below, Event>(
  below: () => AsyncIterator<Below, unknown> | undefined,
  mayRead: () => boolean,
  map: (event: Below) => Event | undefined,
): AtOnce<Event> {
  let known: AtOnce<Below> | undefined;
  const prompt = () => {
    if (known === undefined) {
      const events = below();
      if (isPrompt(events)) known = events[atOnce];
    }
    return known;
  };
  return {
    take() {
      const event = mayRead() ? prompt()?.take() : undefined;
      return event === undefined ? undefined : map(event);
    },
    wait: (ring) => mayRead() && prompt()?.wait(ring) === true,
  };
}
