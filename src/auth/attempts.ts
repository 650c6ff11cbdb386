import { type Clock, systemClock } from '../concurrency/clock.ts';

/**
 * How often something may fail within a window, for each key. An attempt is taken before it is made
 * and given back when it succeeded, so that attempts side by side count too. Time is monotonic: a
 * wall clock that jumps forgives nobody. The number of keys is bounded; the one that was used longest
 * ago goes first.
 */
export interface Allowance {
  readonly allowed: boolean;
  /** Attempts that remain, this one taken. */
  readonly left: number;
  /** Milliseconds until one more is allowed; 0 while some remain. */
  readonly retryInMs: number;
}

export class Attempts {
  readonly #limit: number;
  readonly #windowMs: number;
  readonly #mostKeys: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Times of attempts that were taken and not given back, oldest first. */
  readonly #taken = new Map<string, number[]>();

  constructor(
    limit: number,
    windowMs: number,
    clock: Pick<Clock, 'monotonic'> = systemClock,
    mostKeys = 10_000,
  ) {
    this.#limit = limit;
    this.#windowMs = windowMs;
    this.#mostKeys = mostKeys;
    this.#clock = clock;
  }

  take(key: string): Allowance {
    const now = this.#clock.monotonic();
    const times = this.#recent(key, now);
    const allowed = times.length < this.#limit;
    if (allowed) times.push(now);
    this.#keep(key, times);
    const left = this.#limit - times.length;
    const [oldest = now] = times;
    return { allowed, left, retryInMs: left > 0 ? 0 : oldest + this.#windowMs - now };
  }

  /** Attempts that remain, none taken. */
  left(key: string): number {
    return this.#limit - this.#recent(key, this.#clock.monotonic()).length;
  }

  giveBack(key: string): void {
    const times = this.#taken.get(key);
    times?.pop();
    if (times?.length === 0) this.#taken.delete(key);
  }

  #recent(key: string, now: number): number[] {
    return (this.#taken.get(key) ?? []).filter((time) => now - time < this.#windowMs);
  }

  #keep(key: string, times: number[]): void {
    this.#taken.delete(key);
    if (times.length === 0) return;
    this.#taken.set(key, times);
    const [eldest] = this.#taken.keys();
    if (this.#taken.size > this.#mostKeys && eldest !== undefined) this.#taken.delete(eldest);
  }
}
