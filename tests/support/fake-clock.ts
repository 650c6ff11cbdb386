import type { Clock } from '../../src/concurrency/clock.ts';

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly ring: () => void;
}

/**
 * A clock that stands until it is told to go. Timers ring in order of time, then of asking, each at
 * exactly its own time; between two of them everything that is ready to run gets to run.
 */
export class FakeClock implements Clock {
  readonly #timers = new Set<Timer>();
  #epoch: number;
  #elapsed = 0;
  #order = 0;

  constructor(epoch = Date.UTC(2026, 0, 1)) {
    this.#epoch = epoch;
  }

  /** How many timers are set. */
  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#epoch + this.#elapsed;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  after(ms: number, ring: () => void): () => void {
    const timer = { at: this.#elapsed + Math.max(0, ms), order: this.#order++, ring };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** The wall clock jumps; the other one does not. */
  setBack(ms: number): void {
    this.#epoch -= ms;
  }

  /** Lets `ms` go by. */
  async advance(ms: number): Promise<void> {
    const end = this.#elapsed + ms;
    await settle();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#timers.delete(next);
      this.#elapsed = Math.max(this.#elapsed, next.at);
      next.ring();
      await settle();
    }
    this.#elapsed = end;
    await settle();
  }

  /** As if the process had slept: time is later at once, and all that is overdue rings afterwards. */
  async jump(ms: number): Promise<void> {
    this.#elapsed += ms;
    await this.advance(0);
  }

  #next(end: number): Timer | undefined {
    return [...this.#timers]
      .filter((timer) => timer.at <= end)
      .sort((one, other) => one.at - other.at || one.order - other.order)[0];
  }
}

/** Time goes by while something is told as well. */
export class TellingClock extends FakeClock {
  told = 0;

  override monotonic(): number {
    return super.monotonic() + this.told;
  }
}

/** Runs what promises have made ready, several links of a chain long. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}
