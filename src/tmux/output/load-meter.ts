import type { Clock } from '../../concurrency/clock.ts';

const windowMs = 1_000;
const windows = 3;

/**
 * Says when one piece of work has taken more than its share of the process's time in each of the
 * last three seconds. A burst, however fast, never counts; where it begins again at once after a
 * rest, one second does.
 */
export class LoadMeter {
  readonly #clock: Clock;
  readonly #most: number;
  #windowStart: number;
  #busy = 0;
  #over = 0;

  constructor(clock: Clock, most: number) {
    this.#clock = clock;
    this.#most = most;
    this.#windowStart = clock.monotonic();
  }

  /** The work took `ms` just now. True: it is too much. */
  add(ms: number): boolean {
    const now = this.#clock.monotonic();
    const passed = now - this.#windowStart;
    this.#busy += ms;
    if (passed < windowMs) return false;
    this.#over = this.#busy / passed > this.#most ? this.#over + 1 : 0;
    this.#windowStart = now;
    this.#busy = 0;
    return this.#over >= windows;
  }

  /** Begins anew after a rest. */
  reset(): void {
    this.#windowStart = this.#clock.monotonic();
    this.#busy = 0;
    this.#over = windows - 1;
  }
}
