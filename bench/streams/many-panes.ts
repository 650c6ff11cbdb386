import { type Benchmark, median } from '../measure.ts';
import { bothVersions } from './both-versions.ts';
import { startStreams } from './lab.ts';
import { type Load, loadOf, mustBeWhole } from './side.ts';

const panes = 100;
const ofEach = 10;
const mostMs = 100;

/** A hundred panes that print ten lines a second each, and ten subscribers of each: all of it arrives in time. */
export const manyPanes: Benchmark = {
  name: 'many-panes',
  run: (rounds) =>
    bothVersions(async (version) => {
      await using lab = await startStreams({ version, panes, bytes: 200, everyMs: 100 });
      await using subscribers = await lab.watch('ws', ofEach);
      const run = () => loadOf(lab.service.pid, subscribers, () => {});
      await run();
      const loads: Load[] = [];
      const late: number[] = [];
      for (let round = 0; round < rounds; round++) {
        await lab.lateness();
        loads.push(await run());
        late.push(await lab.lateness());
      }
      mustBeWhole(loads);
      const p99 = median(loads.map((load) => load.p99));
      const rate = median(loads.map(({ lines, seconds }) => lines / seconds));
      return [
        {
          name: `${panes} panes × ${ofEach} subscribers, delay`,
          ratio: mostMs / p99,
          wanted: 1,
          detail: `p99 ${p99.toFixed(1)} ms, p50 ${median(loads.map((load) => load.p50)).toFixed(1)} ms, ${rate.toFixed(0)} lines/s, none lost; event loop p99 ${median(late).toFixed(1)} ms`,
        },
      ];
    }),
};
