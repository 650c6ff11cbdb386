import { setTimeout as wait } from 'node:timers/promises';
import { type Benchmark, median } from '../measure.ts';
import { bothVersions } from './both-versions.ts';
import { startStreams } from './lab.ts';
import { type Load, loadOf, mustBeWhole, residentMiB } from './side.ts';

/** Until what the kernel takes for one that reads nothing is full. */
const fillMs = 8_000;
const mostMiB = 64;

/** A hundred subscribers of one pane, one of which reads nothing every other time. */
export const stalled: Benchmark = {
  name: 'one-stalled',
  run: (rounds) =>
    bothVersions(async (version) => {
      await using lab = await startStreams({ version, panes: 1, bytes: 4_096, everyMs: 10 });
      await using others = await lab.watch('ws', 99);
      const { pid } = lab.service;
      const run = () => loadOf(pid, others, () => {});
      await run();
      const before = await residentMiB(pid);
      let most = before;
      const loads = { without: [] as Load[], beside: [] as Load[] };
      for (let round = 0; round < Math.min(rounds, 5); round++) {
        {
          await using one = await lab.watch('ws', 1);
          await run();
          await one.count();
          loads.without.push(await run());
        }
        await using one = await lab.watch('ws', 1, 1);
        await wait(fillMs);
        await one.count();
        loads.beside.push(await run());
        if ((await one.count()).events > 0) throw new Error('the stalled one read something');
        most = Math.max(most, await residentMiB(pid));
      }
      const p99 = (side: readonly Load[]) => median(side.map((load) => load.p99));
      const [without, beside] = [p99(loads.without), p99(loads.beside)];
      mustBeWhole(loads.beside);
      return [
        {
          name: 'one of 100 subscribers stalled, delay of the others',
          ratio: without / beside,
          wanted: 1 / 1.2,
          detail: `p99 of the others ${beside.toFixed(1)} ms, ${without.toFixed(1)} ms where all read`,
        },
        {
          name: 'one of 100 subscribers stalled, memory',
          ratio: mostMiB / Math.max(1, most - before),
          wanted: 1,
          detail: `grew ${(most - before).toFixed(1)} MiB, ${mostMiB} at most`,
        },
      ];
    }),
};
