import type { Moment } from './freshness.ts';

/** More than both clocks differ by in a while. */
const leapMs = 1_000;

/**
 * Whether the wall clock was set ahead. tmux tells by it alone when something was written: what was
 * written before then seems older than it is.
 */
export class WallClock {
  #last: Moment | undefined;
  #aheadAt = Number.NEGATIVE_INFINITY;

  /** To be called at each look; for how long it was not set ahead, as far as can be told. */
  steadyMs(now: Moment): number {
    const { monotonic, wall } = this.#last ?? now;
    if (now.wall - wall - (now.monotonic - monotonic) > leapMs) this.#aheadAt = now.monotonic;
    this.#last = now;
    return now.monotonic - this.#aheadAt;
  }
}
