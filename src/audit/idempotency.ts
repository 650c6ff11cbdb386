import { sleep } from '../concurrency/clock.ts';
import {
  type Answered,
  type IdempotencyClaim,
  IdempotencyConflictError,
  StillRunningError,
} from './audit.ts';
import type { StoredClaim } from './idempotency-table.ts';

/**
 * One act for each (actor, mutation, key). While it runs here, later calls join it in memory; once
 * its intent is on record, the claim in the table is what holds, for other processes too. A call
 * that was refused before its intent left nothing behind, so the next one runs.
 */
export class Idempotency {
  readonly #running = new Map<
    string,
    { readonly hash: Buffer; readonly answer: Promise<Answered> }
  >();
  /** Names of the acts themselves, without the calls that wait for another process. */
  readonly #acting = new Set<string>();
  readonly #find: (claim: IdempotencyClaim) => Promise<StoredClaim | undefined>;
  readonly #answered: (stored: StoredClaim) => Promise<Answered>;
  readonly #joinMs: number;

  constructor(table: {
    readonly find: (claim: IdempotencyClaim) => Promise<StoredClaim | undefined>;
    readonly answered: (stored: StoredClaim) => Promise<Answered>;
    /** How long an act of another process is waited for. */
    readonly joinMs?: number;
  }) {
    this.#find = table.find;
    this.#answered = table.answered;
    this.#joinMs = table.joinMs ?? 25_000;
  }

  once(claim: IdempotencyClaim, act: () => Promise<Answered>): Promise<Answered> {
    const name = claimName(claim);
    const running = this.#running.get(name);
    if (running) {
      if (!running.hash.equals(claim.inputHash)) return Promise.reject(conflict());
      return running.answer;
    }
    const acting = () => {
      this.#acting.add(name);
      return act().finally(() => this.#acting.delete(name));
    };
    const answer = this.#firstOrStored(claim, acting).finally(() => this.#running.delete(name));
    this.#running.set(name, { hash: claim.inputHash, answer });
    return answer;
  }

  /** Whether the act of that key is done here now, and will answer for it. */
  isActing(claim: Omit<IdempotencyClaim, 'inputHash'>): boolean {
    return this.#acting.has(claimName(claim));
  }

  /** Resolves once nothing runs any more. */
  async idle(): Promise<void> {
    while (this.#running.size > 0)
      await Promise.allSettled([...this.#running.values()].map(({ answer }) => answer));
  }

  async #firstOrStored(claim: IdempotencyClaim, act: () => Promise<Answered>): Promise<Answered> {
    const stored = await this.#stored(claim);
    if (stored) return stored;
    try {
      return await act();
    } catch (error) {
      // Another process took the key between our look and our intent.
      if (!(error instanceof StillRunningError)) throw error;
      const theirs = await this.#stored(claim);
      if (theirs) return theirs;
      throw error;
    }
  }

  async #stored(claim: IdempotencyClaim): Promise<Answered | undefined> {
    const end = performance.now() + this.#joinMs;
    for (;;) {
      const found = await this.#find(claim);
      if (found === undefined) return undefined;
      if (!found.inputHash.equals(claim.inputHash)) throw conflict();
      if (found.answer !== null) return await this.#answered(found);
      if (performance.now() > end) throw new StillRunningError(found.operationId);
      await sleep(200);
    }
  }
}

/** The same for all claims of one key. Neither a key (printable ASCII) nor a mutation's name holds a line end. */
export function claimName({ actorId, mutation, key }: Omit<IdempotencyClaim, 'inputHash'>): string {
  return `${actorId}\n${mutation}\n${key}`;
}

const conflict = () =>
  new IdempotencyConflictError(
    'This idempotency key was used with another input. Use a new key for a new act.',
  );
