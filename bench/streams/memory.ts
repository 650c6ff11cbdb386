import { setTimeout as wait } from 'node:timers/promises';
import type { Benchmark } from '../measure.ts';
import { bothVersions } from './both-versions.ts';
import { startStreams } from './lab.ts';
import { rawSockets } from './raw.ts';
import { residentMiB } from './side.ts';
import type { Subscribers } from './subscribing.ts';

/** So many come at a time; the first of them warm the process up and are not counted. */
const step = 300;
const settleMs = 3_000;

/** Resident memory for each further subscriber of a pane that says something now and then. */
export const memory: Benchmark = {
  name: 'memory-of-subscribers',
  run: (rounds) =>
    bothVersions(async (version) => {
      const steps = Math.min(rounds, 7);
      await using lab = await startStreams({ version, panes: 1, bytes: 200, everyMs: 1_000 });
      const ours = await grown(lab.service.pid, steps, () => lab.watch('ws', step));
      await using raw = await rawSockets(356, 1_000);
      const limit = await grown(raw.pid, steps, () => raw.subscribers(step));
      return [
        {
          name: 'memory of a further subscriber',
          ratio: limit / ours,
          wanted: 1 / 3,
          detail: `${ours.toFixed(0)} KiB, ws ${limit.toFixed(0)} KiB (of ${steps * step} more)`,
        },
      ];
    }),
};

/** KiB for each further one. Memory comes and is reused in lumps, so all steps count together. */
async function grown(
  pid: number,
  steps: number,
  more: () => Promise<Subscribers>,
): Promise<number> {
  await using stack = new AsyncDisposableStack();
  const resident: number[] = [];
  for (let at = 0; at <= steps; at++) {
    stack.use(await more());
    await wait(settleMs);
    resident.push(await residentMiB(pid));
  }
  const [first = 0, last = 0] = [resident[0], resident.at(-1)];
  return ((last - first) * 1_024) / (steps * step);
}
