import { type Clock, systemClock } from '../../src/concurrency/clock.ts';

/** The system's clock with time left out: what is too old after a while is so at once, and timers stay. */
export class SkippingClock implements Clock {
  readonly after = systemClock.after;
  #skipped = 0;

  skip(ms: number): void {
    this.#skipped += ms;
  }

  now(): number {
    return systemClock.now() + this.#skipped;
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#skipped;
  }
}
