import { setImmediate as immediate } from 'node:timers/promises';
import type { Clock } from './clock.ts';

/** Long work, piece by piece: what else the event loop has to do gets its turn in between. */
export class Turn {
  readonly #clock: Clock;
  readonly #ms: number;
  #began: number;

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#ms = ms;
    this.#began = clock.monotonic();
  }

  /** After a piece: undefined while the turn has not been long, else a wait for the next one. */
  over(): Promise<void> | undefined {
    return this.#clock.monotonic() - this.#began < this.#ms ? undefined : this.#next();
  }

  async #next(): Promise<void> {
    await immediate();
    this.#began = this.#clock.monotonic();
  }
}
