import { setTimeout as wait } from 'node:timers/promises';
import { eventually } from '../tests/support/tmux-server.ts';
import { watchTmux } from '../tests/support/watched-tmux.ts';
import { type Benchmark, quantile } from './measure.ts';

/**
 * How late a follower of the listing sees that a window has another name: while a pane of another
 * session is streamed, beside the polls every 5 s that there are without.
 */
export const doorbell: Benchmark = {
  name: 'doorbell',
  async run(rounds) {
    const [rung, polled] = await Promise.all([lateness(rounds, true), lateness(rounds, false)]);
    const at = (part: number) => [quantile(rung, part), quantile(polled, part)] as const;
    const [[rung50, polled50], [rung99, polled99]] = [at(0.5), at(0.99)];
    return [
      {
        name: 'change seen while streaming',
        ratio: polled50 / rung50,
        detail: `p50 ${rung50.toFixed(0)} ms, polled ${polled50.toFixed(0)} ms; p99 ${rung99.toFixed(0)} and ${polled99.toFixed(0)} ms (${rung.length} changes)`,
      },
    ];
  },
};

async function lateness(rounds: number, streaming: boolean): Promise<readonly number[]> {
  await using lab = await watchTmux();
  await lab.tmux.run('new-session', '-d', '-s', 'other', 'exec sh');
  const pane = await lab.pane('main:');
  if (streaming) await lab.watch(pane).first('snapshot');
  const abort = new AbortController();
  let seen: string | undefined;
  const done = (async () => {
    for await (const change of lab.fleet.follow(() => ['m'], abort.signal)) {
      if (change.kind !== 'listing') continue;
      const sessions = change.listing.servers?.[0]?.sessions ?? [];
      seen = sessions.find(({ name }) => name === 'other')?.windows[0]?.name;
    }
  })();
  const found: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    // Fewer than 12 a minute, and at no fixed place between two polls.
    await wait(6_000 + 5_000 * Math.random());
    const from = performance.now();
    await lab.tmux.run('rename-window', '-t', 'other:', `name-${round}`);
    await eventually(() => seen === `name-${round}`, 'the new name', 20_000);
    found.push(performance.now() - from);
  }
  abort.abort();
  await done;
  return found;
}
