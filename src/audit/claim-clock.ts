import { sql } from 'drizzle-orm';
import { type Clock, systemClock } from '../concurrency/clock.ts';
import { claimClock } from '../database/tables.ts';
import { forgetClaims, type Queries } from './idempotency-table.ts';

/**
 * The age of claims on idempotency keys. A wall clock that jumps ahead would forget a key early, and
 * the same act would run twice; so their time is counted: one number in the database, which every
 * service beside it moves on by what its own clock, which never jumps, has measured since it last saw
 * that number.
 *
 * Always: between any two looks the number grows by no more than the time between them and one longest
 * step, however many services move it, for it is only ever set to a number that was seen plus the time
 * since. It stands still while no service runs, so a claim may live longer than 24 h, and never shorter.
 */
const longestStepMs = 120_000;
/** A claim takes the number as it stands, which may be one step behind, and is committed a moment later. */
const keptMs = 24 * 3_600_000 + 2 * longestStepMs;

export class ClaimClock {
  readonly #queries: Queries;
  readonly #clock: Clock;
  #seen: { readonly ms: number; readonly at: number } | undefined;

  constructor(queries: Queries, clock: Clock = systemClock) {
    this.#queries = queries;
    this.#clock = clock;
  }

  /** To be called more often than once in a longest step: what is beyond that is not counted. */
  async forgetOldClaims(): Promise<void> {
    await forgetClaims(this.#queries, (await this.#moveOn()) - keptMs);
  }

  async #moveOn(): Promise<number> {
    const { ms, at } = this.#seen ?? { ms: 0, at: this.#clock.monotonic() };
    const measured = Math.min(this.#clock.monotonic() - at, longestStepMs);
    const [moved] = await this.#queries
      .update(claimClock)
      .set({ ms: sql`greatest(${claimClock.ms}, ${Math.floor(ms + measured)})` })
      .returning({ ms: claimClock.ms });
    if (moved === undefined) throw new Error('the table claim_clock has lost its row');
    this.#seen = { ms: moved.ms, at: this.#clock.monotonic() };
    return moved.ms;
  }
}
