/** Queries are over in milliseconds, so many of them at once are no burden; without end they are. */
const operationsForEach = 20;

/** The operations of one socket, which run until their id is no longer among the open ones. */
export class SocketOperations {
  readonly #most: number;
  readonly #subscriptions = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Why one more is too many; undefined when it may begin. `open` has its own id already. */
  tooMany(open: Readonly<Record<string, unknown>>): string | undefined {
    const most = this.#most * operationsForEach;
    return Object.keys(open).length > most ? `At most ${most} operations at once` : undefined;
  }

  /** The same of a subscription, which counts from now on when it may begin. */
  subscribe(id: string, open: Readonly<Record<string, unknown>>): string | undefined {
    for (const one of this.#subscriptions) if (!(one in open)) this.#subscriptions.delete(one);
    this.#subscriptions.delete(id);
    if (this.#subscriptions.size >= this.#most)
      return `At most ${this.#most} subscriptions on one socket`;
    this.#subscriptions.add(id);
    return undefined;
  }
}
