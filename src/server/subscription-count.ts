import { RequestError } from '../resolvers/request-error.ts';

/** How many subscriptions each actor has open, on all transports together. */
export class SubscriptionCount {
  readonly #open = new Map<string, number>();
  readonly #most: number;
  #total = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get total(): number {
    return this.#total;
  }

  of(actorId: string): number {
    return this.#open.get(actorId) ?? 0;
  }

  /**
   * Counts one more until the returned function is called (once or more often).
   * @throws RequestError (RATE_LIMITED)
   */
  open(actorId: string): () => void {
    const before = this.of(actorId);
    if (before >= this.#most)
      throw new RequestError(
        'RATE_LIMITED',
        `You have ${before} subscriptions open, which is the most. End one first.`,
      );
    this.#open.set(actorId, before + 1);
    this.#total += 1;
    let counted = true;
    return () => {
      if (!counted) return;
      counted = false;
      this.#total -= 1;
      const rest = this.of(actorId) - 1;
      if (rest > 0) this.#open.set(actorId, rest);
      else this.#open.delete(actorId);
    };
  }
}
