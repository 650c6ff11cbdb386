import type { Clock } from '../../concurrency/clock.ts';

/** What something with a life still means to do, taken back as a whole when the life ends. */
export class Timers {
  readonly #clock: Clock;
  readonly #cancels = new Set<() => void>();
  #over = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  after(ms: number, ring: () => void): void {
    if (this.#over) return;
    const cancel = this.#clock.after(ms, () => {
      this.#cancels.delete(cancel);
      ring();
    });
    this.#cancels.add(cancel);
  }

  stop(): void {
    this.#over = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }
}
