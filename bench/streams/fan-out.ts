import type { Version } from '../../tests/support/tmux-server.ts';
import { type Benchmark, type Figure, median } from '../measure.ts';
import { bothVersions } from './both-versions.ts';
import { startStreams } from './lab.ts';
import { rawSockets } from './raw.ts';
import { type Load, loadOf, mustBeWhole } from './side.ts';

interface FanOut {
  readonly subscribers: number;
  readonly bytes: number;
  readonly transport: 'ws' | 'sse';
  /** Of the printed lines that a bare server sends in the same time, each in a message. */
  readonly lines: number;
  /** Of what a message costs there. */
  readonly cost?: number;
  /** Of the delay there. */
  readonly delay?: number;
}

/**
 * Many subscribers of one pane that prints 100 lines a second through the whole service, beside a bare
 * `ws` server that sends each of them one ready message of the same length as often. One side runs at a
 * time. Lines are counted, for a busy pane's are gathered into fewer events; each must arrive.
 */
export const fanOuts: readonly Benchmark[] = [
  fanOut({ subscribers: 1_000, bytes: 200, transport: 'ws', lines: 0.8 }),
  fanOut({ subscribers: 1_000, bytes: 200, transport: 'sse', lines: 0.45 }),
  fanOut({ subscribers: 1_000, bytes: 4_096, transport: 'ws', lines: 0.75 }),
  fanOut({ subscribers: 1_000, bytes: 4_096, transport: 'sse', lines: 0.45 }),
  fanOut({ ...{ subscribers: 100, bytes: 200, transport: 'ws', lines: 1 }, cost: 1.5, delay: 1.5 }),
];

function fanOut(wanted: FanOut): Benchmark {
  const { subscribers, bytes, transport } = wanted;
  return {
    name: `fan-out-${subscribers}-${bytes}-${transport}`,
    run: (rounds) => bothVersions((version) => measure(version, wanted, Math.min(rounds, 7))),
  };
}

async function measure(version: Version, wanted: FanOut, rounds: number) {
  const { subscribers, bytes, transport } = wanted;
  await using lab = await startStreams({ version, panes: 1, bytes, everyMs: 10 });
  await using ours = await lab.watch(transport, subscribers);
  const { pid } = lab.service;
  const print = (whether: boolean) => lab.print(whether);
  await loadOf(pid, ours, print);
  await lab.lateness();
  // As long as an event that holds one line: what stands around the text, and that.
  await using raw = await rawSockets(bytes + (transport === 'ws' ? 156 : 120), 10);
  await using limit = await raw.subscribers(subscribers);
  await loadOf(raw.pid, limit, raw.send);
  const loads = { ours: [] as Load[], limit: [] as Load[] };
  const late: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await lab.lateness();
    loads.ours.push(await loadOf(pid, ours, print));
    late.push(await lab.lateness());
    loads.limit.push(await loadOf(raw.pid, limit, raw.send));
  }
  mustBeWhole(loads.ours);
  return figures(wanted, loads.ours, loads.limit, median(late));
}

function figures(
  { subscribers, bytes, transport, lines, cost, delay }: FanOut,
  ours: readonly Load[],
  limit: readonly Load[],
  late: number,
): readonly Figure[] {
  const name = `${subscribers} subscribers, ${bytes} B, ${transport}`;
  const rate = (side: readonly Load[]) => median(side.map((load) => load.lines / load.seconds));
  const each = (side: readonly Load[], what: 'events' | 'lines') =>
    median(side.map((load) => (1_000 * load.cpuMs) / load[what]));
  const p99 = (side: readonly Load[]) => median(side.map((load) => load.p99));
  const p50 = (side: readonly Load[]) => median(side.map((load) => load.p50));
  const gathered = median(ours.map((load) => load.lines / load.events));
  const µs = (value: number) => `${value.toFixed(1)} µs`;
  const ms = (value: number) => `${value.toFixed(1)} ms`;
  return [
    {
      name: `${name}, lines delivered`,
      ratio: rate(ours) / rate(limit),
      wanted: lines,
      detail: `${rate(ours).toFixed(0)} lines/s, ${gathered.toFixed(1)} in an event, none lost; bare ${rate(limit).toFixed(0)} messages/s`,
    },
    {
      name: `${name}, CPU of a line`,
      ratio: each(limit, 'lines') / each(ours, 'lines'),
      detail: `${µs(each(ours, 'lines'))} for a line to a subscriber, a message ${µs(each(limit, 'lines'))}`,
    },
    {
      name: `${name}, CPU of an event`,
      ratio: each(limit, 'events') / each(ours, 'events'),
      ...(cost && { wanted: 1 / cost }),
      detail: `${µs(each(ours, 'events'))} of CPU an event, a message ${µs(each(limit, 'events'))}`,
    },
    {
      name: `${name}, delay`,
      ratio: p99(limit) / p99(ours),
      ...(delay && { wanted: 1 / delay }),
      detail: `p99 ${ms(p99(ours))}, bare ${ms(p99(limit))}; p50 ${ms(p50(ours))} and ${ms(p50(limit))}; event loop p99 ${ms(late)}`,
    },
  ];
}
