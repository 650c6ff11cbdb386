import { writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Loaded into the service beforehand: at SIGUSR2 it writes how late its event loop was since the last one. */
const resolution = 10;
const file = process.env.BENCH_EVENT_LOOP;
if (file !== undefined) {
  const delays = monitorEventLoopDelay({ resolution });
  delays.enable();
  process.on('SIGUSR2', () => {
    // Whole at once: who waits for it reads no half.
    writeFileSync(file, `p99 ${Math.max(0, delays.percentile(99) / 1e6 - resolution)}\n`);
    delays.reset();
  });
}
