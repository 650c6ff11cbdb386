import { performance } from 'node:perf_hooks';
import type { Clock } from '../../concurrency/clock.ts';
import { LoadMeter } from './load-meter.ts';

const firstRestMs = 1_000;
const mostRestMs = 8_000;
const calmMs = 10_000;
/** Where less is read at a time, nothing worth mentioning has waited. */
const muchBytes = 16_384;
/** Other work that took the event loop for less than this is no more than a turn of it. */
const heldMs = 100;

/**
 * Says when a connection brings more than this process can take: because reading it takes most of the
 * time, or because much of it always waits while the event loop does other things. Either way the
 * member's program would be held, so it is time to rest, the longer the sooner it is time again.
 */
export class Overload {
  readonly #clock: Clock;
  readonly #idleMs: () => number;
  readonly #load: LoadMeter;
  #readAt: number;
  #idleThen: number;
  #restMs = firstRestMs;
  #restedAt = Number.NEGATIVE_INFINITY;

  /**
   * @param most share of the time
   * @param idleMs for how long, in all, the event loop had nothing to do
   */
  constructor(
    clock: Clock,
    most: number,
    idleMs: () => number = () => performance.eventLoopUtilization().idle,
  ) {
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#load = new LoadMeter(clock, most);
    this.#readAt = clock.monotonic();
    this.#idleThen = idleMs();
  }

  /** So much was read and handed on just now, in `ms`. True: it is too much. */
  read(bytes: number, ms: number): boolean {
    const [now, idle] = [this.#clock.monotonic(), this.#idleMs()];
    const otherMs = now - ms - this.#readAt - (idle - this.#idleThen);
    [this.#readAt, this.#idleThen] = [now, idle];
    return this.#load.add(ms + (bytes >= muchBytes && otherMs >= heldMs ? otherMs : 0));
  }

  /** How long to rest now, milliseconds. */
  restMs(): number {
    const again = this.#clock.monotonic() - this.#restedAt < calmMs;
    this.#restMs = again ? Math.min(2 * this.#restMs, mostRestMs) : firstRestMs;
    return this.#restMs;
  }

  rested(): void {
    this.#restedAt = this.#clock.monotonic();
    this.#load.reset();
  }
}
