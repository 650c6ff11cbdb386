import { Bell } from '../../concurrency/bell.ts';
import type { Clock } from '../../concurrency/clock.ts';
import type { ListingChange, MemberListing } from '../model.ts';

/** What a follower follows; `Listing` and the fleet's accounts provide it. */
export interface Followed {
  /** Undefined for a member that is not there (any more). */
  peek(memberId: string): MemberListing | undefined;
  read(memberId: string): Promise<MemberListing | undefined>;
  /** Keeps that member's listing warm until the returned function is called. */
  watch(memberId: string): () => void;
}

interface Follower {
  readonly bell: Bell;
  /** Members whose present state it has not been given. */
  readonly changed: Set<string>;
  readonly watched: Map<string, () => void>;
  /** Its members are to be asked for again. */
  reevaluate: boolean;
}

/**
 * Followers of listings. Each holds the set of members that changed, never a queue: a slow one gets
 * the latest state of each, and nothing grows. However many follow a member, it is watched once as
 * far as its helper is concerned.
 */
export class Followers {
  readonly #followed: Followed;
  readonly #clock: Clock;
  readonly #followers = new Set<Follower>();

  constructor(followed: Followed, clock: Clock) {
    this.#followed = followed;
    this.#clock = clock;
  }

  get count(): number {
    return this.#followers.size;
  }

  changed(memberId: string): void {
    for (const follower of this.#followers) {
      if (!follower.watched.has(memberId)) continue;
      follower.changed.add(memberId);
      follower.bell.ring();
    }
  }

  /** Members came, went, or may be seen by others than before. */
  membersChanged(): void {
    for (const follower of this.#followers) {
      follower.reevaluate = true;
      follower.bell.ring();
    }
  }

  async *follow(
    memberIds: () => readonly string[],
    signal: AbortSignal,
  ): AsyncGenerator<ListingChange, void, undefined> {
    if (signal.aborted) return;
    const follower: Follower = {
      bell: new Bell(),
      changed: new Set(),
      watched: new Map(),
      reevaluate: false,
    };
    this.#followers.add(follower);
    try {
      const versions = new Map<string, string>();
      this.#watch(follower, memberIds());
      await aborted(
        signal,
        Promise.all([...follower.changed].map((id) => this.#followed.read(id))),
      );
      let synced = false;
      while (!signal.aborted) {
        if (follower.reevaluate) {
          follower.reevaluate = false;
          for (const memberId of this.#watch(follower, memberIds())) {
            versions.delete(memberId);
            if (!signal.aborted) yield { kind: 'removed', memberId };
          }
        }
        // A copy: what changes again meanwhile is of the next round, so that `synced` can't be put off.
        for (const memberId of [...follower.changed]) {
          if (!follower.changed.delete(memberId)) continue;
          const listing = this.#followed.peek(memberId);
          if (listing === undefined || versions.get(memberId) === listing.status.version) continue;
          versions.set(memberId, listing.status.version);
          yield { kind: 'listing', listing };
          if (signal.aborted) return;
        }
        if (!synced) {
          synced = true;
          yield { kind: 'synced', at: new Date(this.#clock.now()) };
        }
        // Nothing may have come in between: what follows runs in one turn.
        if (follower.changed.size === 0 && !follower.reevaluate) await follower.bell.wait(signal);
      }
    } finally {
      this.#followers.delete(follower);
      for (const release of follower.watched.values()) release();
    }
  }

  /** Follows exactly these from now on; gives those that it no longer follows. */
  #watch(follower: Follower, memberIds: readonly string[]): readonly string[] {
    const present = new Set(memberIds.filter((id) => this.#followed.peek(id) !== undefined));
    const gone = [...follower.watched.keys()].filter((id) => !present.has(id));
    for (const id of gone) {
      follower.watched.get(id)?.();
      follower.watched.delete(id);
      follower.changed.delete(id);
    }
    for (const id of present) {
      if (follower.watched.has(id)) continue;
      follower.watched.set(id, this.#followed.watch(id));
      follower.changed.add(id);
    }
    return gone;
  }
}

/** The promise, or the abort if that comes first. */
async function aborted(signal: AbortSignal, promise: Promise<unknown>): Promise<void> {
  const { promise: abort, resolve } = Promise.withResolvers<void>();
  const onAbort = () => resolve();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([promise, abort]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
