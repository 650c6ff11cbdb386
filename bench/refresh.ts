import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '../src/concurrency/clock.ts';
import { readConfig } from '../src/config.ts';
import { LocalFleet } from '../src/tmux/local-fleet.ts';
import { startTmux, type TmuxServer } from '../tests/support/tmux-server.ts';
import { type Benchmark, median } from './measure.ts';
import { temporaryFolder } from './service.ts';

const servers = 100;
const sideBySide = 8;
/** So long that nothing is looked at but when this benchmark lets it pass. */
const intervalMs = 3_600_000;
let passedMs = 0;
const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + passedMs };
/**
 * Servers that do nothing are asked again after 1, 2, 4, 8 … looks, then at each 64th. So many looks
 * after a change are let pass, and so many are the figure: one of them asks all.
 */
const looksAtRest = 64;

interface Cost {
  readonly wallMs: number;
  /** Of this process, the helper, and every client that has ended; not of the tmux servers. */
  readonly cpuMs: number;
}

/**
 * One look at a member with 100 tmux servers of five panes each, when all of them have run since the
 * look before and, a look on average, when none has since long; beside it one `list-panes` for each,
 * eight at a time. What these clients cost alone, started by a program as small as xargs, stands
 * beside it: whoever asks each server by its own client can't be below.
 */
export const refresh: Benchmark = {
  name: 'refresh',
  async run(rounds) {
    await using folder = await temporaryFolder();
    const directory = join(folder.path, 'tmux');
    await mkdir(directory, { mode: 0o700 });
    await using stack = new AsyncDisposableStack();
    const all: TmuxServer[] = [];
    for (let number = 0; number < servers; number += 1) {
      const tmux = stack.use(await startTmux({ directory, name: `s${number}` }));
      const window = ['new-window', '-d', 'exec sh', ';'];
      await tmux.run(
        'split-window',
        '-d',
        'exec sh',
        ';',
        ...window,
        ...window,
        ...window.slice(0, 3),
      );
      all.push(tmux);
    }
    const fleet = stack.use(
      new LocalFleet({
        clock,
        config: readConfig({
          HOME: folder.path,
          MUXWARDEN_SOCKET_DIRS: directory,
          MUXWARDEN_STATE_DIR: folder.path,
          MUXWARDEN_LISTING_INTERVAL_MS: String(intervalMs),
        }),
      }),
    );
    fleet.setAccounts([{ memberId: 'member', osUser: userInfo().username }]);
    await fleet.refresh('member');

    const found = {
      changed: [] as Cost[],
      same: [] as Cost[],
      listPanes: [] as Cost[],
      alone: [] as Cost[],
    };
    for (let round = 0; round < rounds; round += 1) {
      found.listPanes.push(await cost(() => listPanes(all)));
      found.alone.push(await cost(() => clientsAlone(all)));
      found.changed.push(await cost(() => look(fleet)));
      for (let each = 0; each < looksAtRest; each += 1) await look(fleet);
      const rest = await cost(async () => {
        for (let each = 0; each < looksAtRest; each += 1) await look(fleet);
      });
      found.same.push({ wallMs: rest.wallMs / looksAtRest, cpuMs: rest.cpuMs / looksAtRest });
    }
    return (['changed', 'same'] as const).flatMap((side) =>
      (['wallMs', 'cpuMs'] as const).map((of) => {
        const [ours, limit, alone] = [found[side], found.listPanes, found.alone].map((costs) =>
          median(costs.map((each) => each[of])),
        ) as [number, number, number];
        const what = side === 'changed' ? 'all changed' : 'none changed';
        return {
          name: `refresh of ${servers} servers, ${what}, ${of === 'wallMs' ? 'time' : 'CPU'}`,
          ratio: limit / ours,
          detail: `${ours.toFixed(0)} ms, ${servers} list-panes ${limit.toFixed(0)} ms (${(ours / limit).toFixed(3)} of it; its clients alone ${alone.toFixed(0)} ms, ${(alone / limit).toFixed(3)})`,
        };
      }),
    );
  },
};

/** One look that is due, until readers see it: what is known is so old that a reader waits for it. */
async function look(fleet: LocalFleet): Promise<void> {
  const seen = () => fleet.peek('member')?.status.observedAt?.getTime() ?? 0;
  const before = seen();
  passedMs += 2 * intervalMs;
  await fleet.read('member');
  const until = performance.now() + 10_000;
  while (seen() === before) {
    await wait(5);
    if (performance.now() > until) throw new Error(JSON.stringify(fleet.peek('member')?.status));
  }
  const rows = fleet.peek('member')?.servers?.filter(({ listing }) => listing.state === 'FRESH');
  if (rows?.length !== servers) throw new Error(`${rows?.length} of ${servers} answered`);
}

const format = [
  'session_id',
  'window_id',
  'pane_id',
  'pane_pid',
  'pane_current_command',
  'pane_title',
]
  .map((name) => `#{${name}}`)
  .join('\t');

async function clientsAlone(all: readonly TmuxServer[]): Promise<void> {
  const command = [all[0]?.binary ?? 'tmux', '-u', '-S', '{}', 'list-panes', '-a', '-F', format];
  const xargs = spawn('xargs', ['-P', String(sideBySide), '-I', '{}', ...command], {
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  xargs.stdin.end(all.map(({ socket }) => `${socket}\n`).join(''));
  const [code] = await once(xargs, 'close');
  if (code !== 0) throw new Error(`xargs ended with ${code}`);
}

async function listPanes(all: readonly TmuxServer[]): Promise<void> {
  const waiting = [...all];
  const next = async (): Promise<void> => {
    for (let tmux = waiting.pop(); tmux !== undefined; tmux = waiting.pop()) {
      const child = spawn(tmux.binary, ['-u', '-S', tmux.socket, 'list-panes', '-a', '-F', format]);
      let text = '';
      child.stdout.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      await new Promise((resolve) => child.once('close', resolve));
      if (text.split('\n').length !== 6) throw new Error(`list-panes said ${text}`);
    }
  };
  await Promise.all(Array.from({ length: sideBySide }, next));
}

async function cost(work: () => Promise<void>): Promise<Cost> {
  const [cpu, wall] = [await cpuMs(), performance.now()];
  await work();
  return { wallMs: performance.now() - wall, cpuMs: (await cpuMs()) - cpu };
}

/** Of this process and all that descends from it, in clock ticks of 10 ms. */
async function cpuMs(pid = process.pid): Promise<number> {
  const own = await stat(pid);
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8'))
    .split(' ')
    .filter(Boolean);
  const theirs = await Promise.all(children.map((child) => cpuMs(Number(child)).catch(() => 0)));
  return own + theirs.reduce((sum, ms) => sum + ms, 0);
}

async function stat(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * 10, 0);
}
