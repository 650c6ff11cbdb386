import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { startChild } from './child.ts';
import { type Benchmark, type Figure, mebibytes, median, quantile } from './measure.ts';
import { portOf, startStreams } from './stream-lab.ts';
import { type Subscribers, subscribe } from './subscribing.ts';

/**
 * Many subscribers through the whole service, beside a bare `ws` server that sends each of them one
 * ready message of the same length as often as the pane prints. Processor time is compared, which is
 * the same whatever else the machine does; delays are those of both servers in the same minute.
 */
export const streams: Benchmark = {
  name: 'streams',
  async run(rounds) {
    const figures: Figure[] = [];
    for (const [subscribers, bytes, transport] of [
      [1_000, 200, 'ws'],
      [1_000, 200, 'sse'],
      [1_000, 4_096, 'ws'],
      [1_000, 4_096, 'sse'],
      [100, 200, 'ws'],
    ] as const)
      figures.push(...(await onePane(rounds, subscribers, bytes, transport)));
    figures.push(await stalled(rounds));
    return figures;
  },
};

/** One pane that prints a line of so many bytes every 10 ms. */
async function onePane(
  rounds: number,
  subscribers: number,
  bytes: number,
  transport: 'ws' | 'sse',
): Promise<readonly Figure[]> {
  await using lab = await startStreams({ panes: 1, bytes, everyMs: 10 });
  const idle = mebibytes(await readFile(`/proc/${lab.service.pid}/status`, 'utf8'));
  await using ours = await lab.watch(transport, subscribers);
  const seen = await load(lab.service.pid, ours);
  await using raw = await rawSockets(Math.round(seen.bytes / seen.events));
  const rawIdle = mebibytes(await readFile(`/proc/${raw.pid}/status`, 'utf8'));
  await using limit = await rawSubscribers(raw.url, subscribers);
  const loads = { ours: [] as Load[], limit: [] as Load[] };
  await load(raw.pid, limit);
  for (let round = 0; round < rounds; round++) {
    loads.ours.push(await load(lab.service.pid, ours));
    loads.limit.push(await load(raw.pid, limit));
  }
  const cost = (side: readonly Load[]) =>
    median(side.map(({ cpuMs, events }) => (1_000 * cpuMs) / events));
  const rate = (side: readonly Load[]) =>
    median(side.map(({ events, seconds }) => events / seconds)).toFixed(0);
  const perPrinted = median(
    loads.ours.map(({ cpuMs, seconds }) => (1_000 * cpuMs) / (seconds * 100 * subscribers)),
  );
  const name = `${subscribers} subscribers of one pane, ${bytes} B, ${transport}`;
  const length = (seen.bytes / seen.events).toFixed(0);
  const grown =
    (mebibytes(await readFile(`/proc/${lab.service.pid}/status`, 'utf8')) - idle) / subscribers;
  const rawGrown =
    (mebibytes(await readFile(`/proc/${raw.pid}/status`, 'utf8')) - rawIdle) / subscribers;
  return [
    {
      name: `${name}, each event`,
      ratio: cost(loads.limit) / cost(loads.ours),
      detail: `${cost(loads.ours).toFixed(1)} µs of CPU an event of ${length} B, ws ${cost(loads.limit).toFixed(1)} µs (${rate(loads.ours)} and ${rate(loads.limit)} events/s)`,
    },
    {
      name: `${name}, each line`,
      ratio: cost(loads.limit) / perPrinted,
      detail: `${perPrinted.toFixed(1)} µs of CPU for a printed line to a subscriber, a message of ws ${cost(loads.limit).toFixed(1)} µs`,
    },
    {
      name: `${name}, memory`,
      ratio: rawGrown / grown,
      detail: `${(grown * 1024).toFixed(0)} KiB for each subscriber, ws ${(rawGrown * 1024).toFixed(0)} KiB`,
    },
  ];
}

/** One of a hundred subscribers reads nothing: how late the others get what is printed. */
async function stalled(rounds: number): Promise<Figure> {
  await using lab = await startStreams({ panes: 1, bytes: 200, everyMs: 10 });
  const found = { with: [] as number[], without: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    for (const [side, count] of [
      ['without', 0],
      ['with', 1],
    ] as const) {
      await using subscribers = await lab.watch('ws', 100, count);
      await subscribers.count();
      await wait(4_000);
      found[side].push(quantile((await subscribers.count()).delays, 0.99));
    }
  }
  const [without, beside] = [median(found.without), median(found.with)];
  return {
    name: 'one of 100 subscribers stalled',
    ratio: without / beside,
    detail: `p99 of the others ${beside.toFixed(1)} ms, ${without.toFixed(1)} ms where all read`,
  };
}

interface Load {
  readonly cpuMs: number;
  readonly seconds: number;
  readonly events: number;
  readonly bytes: number;
}

/** What a server of that process did in some seconds. */
async function load(pid: number, subscribers: Subscribers): Promise<Load> {
  await wait(500);
  await subscribers.count();
  const [began, before] = [performance.now(), await cpuMs(pid)];
  await wait(4_000);
  const { events, bytes, silent } = await subscribers.count();
  const cpu = (await cpuMs(pid)) - before;
  if (silent > 0) throw new Error(`${silent} subscribers got nothing`);
  return { cpuMs: cpu, seconds: (performance.now() - began) / 1_000, events, bytes };
}

async function cpuMs(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function rawSockets(length: number) {
  return startChild([join(import.meta.dirname, 'raw-sockets.ts'), String(length), '10']);
}

function rawSubscribers(url: string, subscribers: number): Promise<Subscribers> {
  const variables = Array.from({ length: subscribers }, () => ({}));
  return subscribe({ port: portOf(url), key: '', query: '', transport: 'raw', variables });
}
