import { type BackOff, backOffMs } from '../../concurrency/back-off.ts';
import type { ListingState, ListingStatus, Reason } from '../model.ts';

/**
 * How good one looked-up value is: when it was last seen, and how the attempts since then went.
 *
 * - FRESH: the last attempt succeeded, and the value is not older than `freshMs`.
 * - STALE: older, or the last attempt failed or was skipped; the value is the last known one.
 * - UNKNOWN: never seen, or older than `maxAgeMs` while attempts fail.
 *
 * Older than `maxAgeMs` without a failure is `isCold`: nobody asked. Ages are measured on the
 * monotonic clock; wall times are for people only.
 */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

export interface FreshnessRules {
  readonly freshMs: number;
  readonly maxAgeMs: number;
  readonly backOff: BackOff;
}

export interface Trouble {
  readonly reason: Reason | null;
  readonly detail: string | null;
}

export class Freshness {
  readonly #rules: FreshnessRules;
  #seen: Moment | undefined;
  #note: Trouble | undefined;
  #failure: Trouble | undefined;
  #failures = 0;
  #retry: Moment | undefined;

  constructor(rules: FreshnessRules) {
    this.#rules = rules;
  }

  get failing(): boolean {
    return this.#failure !== undefined;
  }

  get seenAt(): Moment | undefined {
    return this.#seen;
  }

  /** Looked, and saw all of it, or all but what the note says. */
  succeed(at: Moment, note?: Trouble): void {
    this.#seen = at;
    this.#note = note;
    this.#failure = undefined;
    this.#failures = 0;
    this.#retry = undefined;
  }

  /** Could not look. `ended` is when the attempt ended: pauses count from there; without it there is none. */
  fail(reason: Reason | null, detail: string | null, ended?: Moment): void {
    this.#failure = { reason, detail };
    this.#failures++;
    if (ended === undefined) {
      this.#retry = undefined;
      return;
    }
    const pause = backOffMs(this.#failures, this.#rules.backOff);
    this.#retry = { monotonic: ended.monotonic + pause, wall: ended.wall + pause };
  }

  /** As if never seen: what was known is about something else. */
  forget(): void {
    this.#seen = undefined;
    this.#note = undefined;
    this.#failure = undefined;
    this.#failures = 0;
    this.#retry = undefined;
  }

  /** `overdue`: an attempt is under way for so long that it counts as failing. */
  stateAt(now: number, overdue = false): ListingState {
    if (this.#seen === undefined) return 'UNKNOWN';
    const age = now - this.#seen.monotonic;
    if ((this.failing || overdue) && age > this.#rules.maxAgeMs) return 'UNKNOWN';
    return !this.failing && age <= this.#rules.freshMs ? 'FRESH' : 'STALE';
  }

  /** When the state changes by age alone; undefined when it no longer does. */
  changesAt(now: number, overdue = false): number | undefined {
    if (this.#seen === undefined) return undefined;
    const { freshMs, maxAgeMs } = this.#rules;
    const bounds = [freshMs, maxAgeMs].map((ms) => (this.#seen?.monotonic ?? 0) + ms);
    const state = this.stateAt(now, overdue);
    // The state holds at the bound itself, and changes right after it.
    return bounds.find((at) => at >= now && this.stateAt(at + 1, overdue) !== state);
  }

  isCold(now: number): boolean {
    if (this.failing) return false;
    return this.#seen === undefined || now - this.#seen.monotonic > this.#rules.maxAgeMs;
  }

  inBackOff(now: number): boolean {
    return this.#retry !== undefined && now < this.#retry.monotonic;
  }

  get retryAt(): number | undefined {
    return this.#retry?.monotonic;
  }

  statusAt(now: number, version: string, overdue = false): ListingStatus {
    const state = this.stateAt(now, overdue);
    const trouble = this.#failure ?? (state === 'UNKNOWN' ? notYet(overdue) : this.#note);
    return {
      state,
      version,
      observedAt: this.#seen === undefined ? null : new Date(this.#seen.wall),
      reason: trouble?.reason ?? null,
      detail: trouble?.detail ?? null,
      consecutiveFailures: this.#failures,
      nextAttemptAt: this.#retry === undefined ? null : new Date(this.#retry.wall),
    };
  }
}

function notYet(overdue: boolean): Trouble {
  return overdue
    ? { reason: 'TIMEOUT', detail: 'asked, and no answer yet' }
    : { reason: 'NOT_YET_ASKED', detail: null };
}
