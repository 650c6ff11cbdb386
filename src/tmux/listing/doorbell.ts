import type { Clock } from '../../concurrency/clock.ts';

const apartMs = 1_000;
const perMinute = 12;
const minuteMs = 60_000;

/**
 * "Something may have changed", turned into "ask now": at most once a second and 12 times a minute.
 * Rings in between are one ring at the earliest time allowed.
 */
export class Doorbell {
  readonly #clock: Clock;
  readonly #answer: () => void;
  readonly #answered: number[] = [];
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, answer: () => void) {
    this.#clock = clock;
    this.#answer = answer;
  }

  ring(): void {
    if (this.#cancel !== undefined) return;
    const wait = this.#allowedAt() - this.#clock.monotonic();
    if (wait <= 0) this.#open();
    else this.#cancel = this.#clock.after(wait, () => this.#open());
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #allowedAt(): number {
    const last = this.#answered.at(-1);
    const twelfth = this.#answered.at(-perMinute);
    return Math.max(
      last === undefined ? 0 : last + apartMs,
      twelfth === undefined ? 0 : twelfth + minuteMs,
    );
  }

  #open(): void {
    this.#cancel = undefined;
    this.#answered.push(this.#clock.monotonic());
    if (this.#answered.length > perMinute) this.#answered.shift();
    this.#answer();
  }
}
