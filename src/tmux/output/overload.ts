import { performance } from 'node:perf_hooks';
import type { Clock } from '../../concurrency/clock.ts';
import { LoadMeter } from './load-meter.ts';

const firstRestMs = 250;
const mostRestMs = 8_000;
const calmMs = 10_000;
/** A turn of an event loop that is always late brings 32 KiB (seen on all versions). Less: nobody was held. */
const muchBytes = 32_000;
/** What took the event loop for less than this is no more than a turn of it. */
const heldMs = 100;

/** For how long the event loop had nothing to do, in all, and how often it has looked for what to read. */
export interface EventLoop {
  idleMs(): number;
  turns(): number;
}

const ownEventLoop: EventLoop = {
  idleMs: () => performance.nodeTiming.idleTime,
  turns: () => performance.nodeTiming.uvMetricsInfo.loopCount,
};

/**
 * Says when a connection brings more than this process can take: because reading it takes most of the
 * time, or because much of it always waits while the event loop does other things. Either way the
 * member's program would be held, so it is time to rest, the longer the sooner it is time again.
 *
 * What comes late has not waited here: each turn of the event loop looks whether there is something to
 * read, so nothing has waited for longer than the turn before.
 */
export class Overload {
  readonly #clock: Clock;
  readonly #eventLoop: EventLoop;
  readonly #load: LoadMeter;
  #readAt: number;
  #idleThen: number;
  #turn: number;
  /** Read in this turn, and how long that can have waited. */
  #bytes = 0;
  #waitedMs = 0;
  #restMs = firstRestMs;
  #restedAt = Number.NEGATIVE_INFINITY;

  /** @param most share of the time */
  constructor(clock: Clock, most: number, eventLoop: EventLoop = ownEventLoop) {
    this.#clock = clock;
    this.#eventLoop = eventLoop;
    this.#load = new LoadMeter(clock, most);
    this.#readAt = clock.monotonic();
    this.#idleThen = eventLoop.idleMs();
    this.#turn = eventLoop.turns();
  }

  /** So much was read and handed on just now, in `ms`. True: it is too much. */
  read(bytes: number, ms: number): boolean {
    const [now, idle] = [this.#clock.monotonic(), this.#eventLoop.idleMs()];
    const turn = this.#eventLoop.turns();
    if (turn !== this.#turn) {
      const otherMs = now - ms - this.#readAt - (idle - this.#idleThen);
      this.#waitedMs = otherMs / (turn - this.#turn);
      this.#bytes = 0;
    }
    this.#bytes += bytes;
    [this.#readAt, this.#idleThen, this.#turn] = [now, idle, turn];
    return this.#load.add(ms + this.#heldMs());
  }

  /** Counted once in a turn. */
  #heldMs(): number {
    const waited = this.#waitedMs;
    if (this.#bytes < muchBytes || waited < heldMs) return 0;
    this.#waitedMs = 0;
    return waited;
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
