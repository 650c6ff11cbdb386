import { type Clock, systemClock } from '../../src/concurrency/clock.ts';

/** The system's clock, but timers of one length go by the time that the test says has passed. */
export class ToldTimers implements Clock {
  readonly now = systemClock.now;
  readonly monotonic = systemClock.monotonic;
  readonly #ms: number;
  readonly #timers = new Set<{ readonly at: number; readonly ring: () => void }>();
  #passed = 0;

  constructor(ms: number) {
    this.#ms = ms;
  }

  after(ms: number, ring: () => void): () => void {
    if (ms !== this.#ms) return systemClock.after(ms, ring);
    const timer = { at: this.#passed + ms, ring };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  pass(ms: number): void {
    this.#passed += ms;
    for (const timer of [...this.#timers]) {
      if (timer.at > this.#passed) continue;
      this.#timers.delete(timer);
      timer.ring();
    }
  }
}
