import type { Clock } from '../../concurrency/clock.ts';
import type { ListingStatus, MemberListing, ServerView } from '../model.ts';
import { isCosmetic, listingLooksTheSame } from './listing-change.ts';

/** How often, at most, followers are woken for what programs change all the time. */
const cosmeticMs = 1_000;

/**
 * What readers see of a member, and its version: that changes exactly when they see something else.
 * Followers are woken then: at once, and for cosmetic changes once a second at most.
 */
export class ListingView {
  readonly #clock: Clock;
  readonly #start: string;
  readonly #changed: () => void;
  #versions = 0;
  #current: MemberListing;
  #rungAt = Number.NEGATIVE_INFINITY;
  #cancelRing: (() => void) | undefined;

  /** Versions begin with `start`, which differs in each life of this service. */
  constructor(
    memberId: string,
    first: ListingStatus,
    start: string,
    clock: Clock,
    changed: () => void,
  ) {
    this.#clock = clock;
    this.#start = start;
    this.#changed = changed;
    const status = { ...first, version: this.nextVersion() };
    this.#current = { memberId, status, servers: null };
  }

  get current(): MemberListing {
    return this.#current;
  }

  nextVersion = (): string => `${this.#start}-${++this.#versions}`;

  show(status: ListingStatus, servers: readonly ServerView[] | null): void {
    const before = this.#current;
    const after: MemberListing = { memberId: before.memberId, status, servers };
    if (listingLooksTheSame(before, after)) {
      this.#current = { ...after, status: { ...status, version: before.status.version } };
      return;
    }
    this.#current = { ...after, status: { ...status, version: this.nextVersion() } };
    this.#ring(isCosmetic(before, after));
  }

  stop(): void {
    this.#cancelRing?.();
    this.#cancelRing = undefined;
  }

  #ring(cosmetic: boolean): void {
    const wait = cosmetic ? this.#rungAt + cosmeticMs - this.#clock.monotonic() : 0;
    if (wait > 0) {
      this.#cancelRing ??= this.#clock.after(wait, () => this.#ring(false));
      return;
    }
    this.stop();
    this.#rungAt = this.#clock.monotonic();
    this.#changed();
  }
}
