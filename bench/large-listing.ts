import { setImmediate as turn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../src/concurrency/clock.ts';
import { readConfig } from '../src/config.ts';
import { AnswerBytes } from '../src/tmux/helper/answer.ts';
import { Lines } from '../src/tmux/helper/lines.ts';
import { Edition } from '../src/tmux/listing/edition.ts';
import { Listing } from '../src/tmux/listing/listing.ts';
import { parseSnapshot } from '../src/tmux/listing/rows.ts';
import { parseSessionRows } from '../src/tmux/listing/session-rows.ts';
import { type HelperAnswer, HelperError, type MemberHelper } from '../src/tmux/member-helper.ts';
import { type Benchmark, median } from './measure.ts';

const servers = 50;
const windows = 20;
const panes = 10;
/** Of 10,000. */
const changed = 100;

/**
 * How long one look at a member with 10,000 panes, 1 % of them with another title, holds the event
 * loop: from the last bytes of the helper's answer to what readers see, the longest time that nothing
 * else has its turn, and all of them. Beside it all rows parsed, built and compared with those of before.
 */
export const largeListing: Benchmark = {
  name: 'large-listing',
  async run(rounds) {
    const everyone = Array.from({ length: servers }, (_, at) => at);
    const figures = [];
    for (const [name, among] of [
      ['10,000 panes, 1 % changed, in a fifth of the servers', servers / 5],
      ['10,000 panes, 1 % changed, in every server', servers],
    ] as const) {
      const found = { longest: [] as number[], ours: [] as number[], limit: [] as number[] };
      const helper = new GivenHelper(snapshot('aa', everyone, 0));
      const listing = new Listing({
        memberId: 'member',
        helper,
        clock: systemClock,
        config: readConfig({ HOME: '/nowhere', MUXWARDEN_SOCKET_DIRS: '/tmp/tmux-1000' }),
        start: 'start',
        installedVersion: () => '3.5a',
        ownClientPids: () => new Set(),
        edition: new Edition(),
        changed: () => {},
      });
      const release = listing.watch();
      const { longestMs: first } = await helper.heldBy(listing);
      for (let look = 1; look <= rounds * 20; look += 1) {
        const told = snapshot(`${look % 2}a`, everyone.slice(0, among), look);
        const before = listing.peek();
        helper.next = told;
        const held = await helper.heldBy(listing);
        found.longest.push(held.longestMs);
        found.ours.push(held.ms);
        if (listing.peek().status.version === before.status.version || titles(listing) !== 10_000) {
          throw new Error('the look was not what it is meant to be');
        }
        found.limit.push(fromScratch(snapshot('aa', everyone, look), look));
      }
      release();
      listing[Symbol.dispose]();
      // What is compiled late is compiled before it counts.
      const [longest, ours, limit] = [found.longest, found.ours, found.limit].map((each) =>
        median(each.slice(rounds * 10)),
      ) as [number, number, number];
      const part = (ms: number) => `${ms.toFixed(2)} ms, ${(ms / limit).toFixed(3)} of it`;
      figures.push({
        name,
        ratio: limit / longest,
        detail: `all parsed, built and compared ${limit.toFixed(1)} ms; the longest turn ${part(longest)}; all turns ${part(ours)}; the longest of the very first look ${first.toFixed(1)} ms`,
      });
    }
    return figures;
  },
};

interface Held {
  readonly ms: number;
  readonly longestMs: number;
}

/** Gives what it is told to, and says how long its taking in held the event loop. */
class GivenHelper implements MemberHelper {
  next: Buffer;
  #answer: ((answer: HelperAnswer) => void) | undefined;

  constructor(first: Buffer) {
    this.next = first;
  }

  ask(): Promise<HelperAnswer> {
    const { promise, resolve } = Promise.withResolvers<HelperAnswer>();
    this.#answer = resolve;
    setImmediate(() => this.#give());
    return promise;
  }

  async heldBy(listing: Listing): Promise<Held> {
    const begun = new Promise<number>((resolve) => {
      this.#given = resolve;
    });
    listing.doorbell();
    let over = false;
    const refreshed = listing.refresh().then(() => {
      over = true;
    });
    let [ms, longestMs, last] = [0, 0, await begun];
    while (!over) {
      await turn();
      const now = threadMs();
      ms += now - last;
      longestMs = Math.max(longestMs, now - last);
      last = now;
    }
    await refreshed;
    return { ms, longestMs };
  }

  #given: (from: number) => void = () => {};

  #give(): void {
    const bytes = new AnswerBytes(1, 'snapshot');
    const last = this.next.length - (this.next.length % (1 << 16));
    bytes.push(this.next.subarray(0, last));
    this.#given(threadMs());
    bytes.push(this.next.subarray(last));
    this.#answer?.(bytes.answer());
  }

  act = refuse;
  start = refuse;
  control = refuse;
  async [Symbol.asyncDispose](): Promise<void> {}
}

function refuse(): Promise<never> {
  return Promise.reject(new HelperError('HELPER_FAILED', 'reads only'));
}

function titles(listing: Listing): number {
  const sessions = (listing.peek().servers ?? []).flatMap((server) => server.sessions ?? []);
  return sessions.flatMap((each) => each.windows.flatMap((window) => window.panes)).length;
}

/**
 * What this thread has computed: what else the machine does is not in it. The kernel brings its count
 * up to date when the whole process is asked for.
 */
function threadMs(): number {
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

let before: readonly unknown[] = [];

function fromScratch(bytes: Buffer, turn: number): number {
  const lines = Lines.of(bytes);
  const from = threadMs();
  const { columns, servers } = parseSnapshot(lines);
  const rows = servers.map(
    (server) => parseSessionRows(server.rows.toString(), columns, new Map()).sessions,
  );
  const same = rows.filter((each, at) => isDeepStrictEqual(each, before[at])).length;
  const ms = threadMs() - from;
  if (turn > 1 && same === servers.length) throw new Error('nothing changed');
  before = rows;
  return ms;
}

const hex = (text: string) => Buffer.from(text).toString('hex');
const boot = 'b0071d00-0000-4000-8000-000000000001';
const columns = {
  session: 'id created attached name',
  window: 'session id index active layout name',
  pane: 'session window id index active dead status signal pid mode columns rows tty command title start path report doing agent lasting job',
  client: 'session pid control',
};

/** The answer of a look: these servers with their rows, the others at rest. */
function snapshot(look: string, told: readonly number[], turn: number): Buffer {
  const rows = [
    `member\t1000\t${hex('m')}\t${hex('/m')}\t${boot}\t100\t${1_000_000 + turn * 10_000}`,
    ...Object.entries(columns).map(
      ([kind, names]) => `fields\t${kind}\t${names.replaceAll(' ', '\t')}`,
    ),
    `directory\t${hex('/tmp/tmux-1000')}\tOK\t`,
    `dead\t${hex('/tmp/tmux-1000')}\t0`,
    `look\t${look}`,
  ];
  for (let server = 0; server < servers; server += 1) {
    const code = told.includes(server) ? 'OK' : 'SAME';
    const path = hex(`/tmp/tmux-1000/s${String(server).padStart(2, '0')}`);
    rows.push(
      `server\t${path}\t${code}\t\t${1000 + server}\t77\tS\t10\t8\t1024\t1767225600000\t0\t3.5a\t${hex('/t')}`,
    );
    if (code === 'OK') rows.push(...serverRows(server, told.length, turn));
  }
  const body = `${rows.join('\n')}\n`;
  return Buffer.from(
    `begin\t1\tsnapshot\n${body}end\t1\t${rows.length}\t${Buffer.byteLength(body)}\n`,
  );
}

function serverRows(server: number, among: number, turn: number): readonly string[] {
  const moving = changed / among;
  const rows = [`identity\t${1000 + server}\t1767225600`, 'session\t0\t1767225600\t0\tm'];
  for (let window = 0; window < windows; window += 1) {
    rows.push(`window\t0\t${window}\t${window}\t0\tb25d,80x24,0,0,0\tw`);
  }
  for (let pane = 0; pane < windows * panes; pane += 1) {
    const window = Math.floor(pane / panes);
    const at = pane % panes;
    const step = Math.floor((windows * panes) / moving);
    const title = pane % step === 0 && pane / step < moving ? `t${turn}` : 't';
    rows.push(
      `pane\t0\t${window}\t${pane}\t${at}\t0\t0\t\t\t${2000 + pane}\t0\t80\t24\t/dev/pts/${pane}\tsh\t${title}\t\t2f\t\tshell\t\t\t`,
    );
  }
  return rows;
}
