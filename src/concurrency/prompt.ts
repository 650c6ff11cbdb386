/**
 * An iterator that can be read without a promise as long as nothing has to be done for its next event
 * but to take it: a thousand who read the same are then served by one plain loop.
 *
 *   take   the next event, where it is there
 *   wait   calls `ring` once, when there may be one again; where `offer` is given, each next event that is
 *          there for all who wait is offered instead, as long as it is taken
 *
 * Both only while no `next` is under way. Where `take` has nothing and `wait` is not possible, it is
 * for `next` to say what there is: an end, an error, or something that takes time. It gives whatever
 * comes, so these two are never needed.
 */
export const atOnce = Symbol('at once');

export interface AtOnce<Event> {
  take(): Event | undefined;
  /** False: ask `next`. A ring promises nothing: `take` may find nothing, and `wait` be impossible. */
  wait(ring: () => void, offer?: Offer<Event>): boolean;
}

/**
 * Takes the next event, and goes on waiting; or false, and it is rung: the event is still to be had. Never
 * throws, for the others are told in the same loop.
 */
export type Offer<Event> = (event: Event) => boolean;

export interface Prompt<Event> extends AsyncIterableIterator<Event, void> {
  readonly [atOnce]: AtOnce<Event>;
}

export function isPrompt<Event>(
  iterator: AsyncIterator<Event, unknown> | undefined,
): iterator is Prompt<Event> {
  return iterator !== undefined && atOnce in iterator;
}

/**
 * An iterator over another that gives the same events: as prompt as that one, once there is one, and while it
 * may be read. Offers are that one's, so it must have been left when this may not be read any more.
 */
export function through<Event>(
  below: () => AsyncIterator<Event, unknown> | undefined,
  mayRead: () => boolean,
): AtOnce<Event> {
  let known: AtOnce<Event> | undefined;
  const prompt = () => {
    if (known === undefined) {
      const events = below();
      if (isPrompt(events)) known = events[atOnce];
    }
    return known;
  };
  return {
    take: () => (mayRead() ? prompt()?.take() : undefined),
    wait: (ring, offer) => mayRead() && prompt()?.wait(ring, offer) === true,
  };
}

/** The same for one that makes something of each event. `given` is called when that was taken. */
export function over<Below, Event>(
  below: () => AsyncIterator<Below, unknown> | undefined,
  mayRead: () => boolean,
  map: (event: Below) => Event,
  given: (event: Below) => void = () => {},
): AtOnce<Event> {
  const { take, wait } = through(below, mayRead);
  return {
    take() {
      const event = take();
      if (event === undefined) return undefined;
      const made = map(event);
      given(event);
      return made;
    },
    wait: (ring, offer) =>
      wait(
        ring,
        offer &&
          ((event) => {
            if (!mayRead() || !offer(map(event))) return false;
            given(event);
            return true;
          }),
      ),
  };
}
