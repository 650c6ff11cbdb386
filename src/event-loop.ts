import { monitorEventLoopDelay } from 'node:perf_hooks';

/** How late the event loop is, over the last one to two minutes. */
export interface EventLoopDelay extends Disposable {
  /** Milliseconds. */
  p99(): number;
}

const resolutionMs = 10;
const windowMs = 60_000;

export function watchEventLoop(): EventLoopDelay {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  let before = 0;
  // The monitor measures from one of its own timers to the next, so it counts its resolution as well.
  const current = () => Math.max(0, delays.percentile(99) / 1e6 - resolutionMs);
  delays.enable();
  const timer = setInterval(() => {
    before = current();
    delays.reset();
  }, windowMs);
  timer.unref();
  return {
    p99: () => Math.max(before, current()),
    [Symbol.dispose]() {
      clearInterval(timer);
      delays.disable();
    },
  };
}
