import { setTimeout as wait } from 'node:timers/promises';
import { eventually } from '../../tests/support/tmux-server.ts';
import { type Benchmark, median } from '../measure.ts';
import { bothVersions } from './both-versions.ts';
import { startStreams } from './lab.ts';
import type { Subscribers } from './subscribing.ts';

const followers = 1_000;
const mostMs = 150;
const query = `subscription { listingChanged { __typename ... on ListingSnapshot {
  member { login listing { version observedAt } tmuxServers { socketPath sessions { name windows { name } } } } } } }`;

/**
 * How long after tmux answered with another listing it has reached a thousand followers, and how often
 * it was executed for them.
 */
export const listingFollowers: Benchmark = {
  name: 'followers',
  run: (rounds) =>
    bothVersions(async (version) => {
      await using lab = await startStreams({ version, panes: 1, bytes: 200, everyMs: 1_000 });
      await using subscribers = await lab.subscribe(query, followers);
      await quiet(subscribers);
      const delays: number[] = [];
      const executed: number[] = [];
      const late: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const before = await lab.executions();
        await lab.lateness();
        await lab.tmux.run('rename-window', '-t', 'main:', `name-${round}`);
        let came = 0;
        let slowest = 0;
        await eventually(
          async () => {
            await wait(1_000);
            const { events, p99 } = await subscribers.count();
            came += events;
            if (events > 0) slowest = Math.max(slowest, p99);
            return came >= followers;
          },
          'the change reaches all',
          20_000,
        );
        late.push(await lab.lateness());
        executed.push((await lab.executions()) - before);
        if (came !== followers) throw new Error(`${came} events came for one change`);
        delays.push(slowest);
      }
      if (executed.some((times) => times !== 1)) throw new Error(`executed ${executed} times`);
      return [
        {
          name: `${followers} followers of a listing, delay`,
          ratio: mostMs / median(delays),
          wanted: 1,
          detail: `p99 ${median(delays).toFixed(0)} ms from tmux's answer, executed once each; event loop p99 ${median(late).toFixed(1)} ms`,
        },
      ];
    }),
};

/** What is there at first has come. */
async function quiet(subscribers: Subscribers): Promise<void> {
  do await wait(6_000);
  while ((await subscribers.count()).events > 0);
}
