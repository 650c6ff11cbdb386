import { Lines } from '../../src/tmux/helper/lines.ts';
import {
  type AskOptions,
  type ControlConnection,
  type HelperAnswer,
  HelperError,
  type MemberHelper,
} from '../../src/tmux/member-helper.ts';

/** One answer to come: its rows, or the error to reject with. */
export type Answer = string | HelperError;

interface Asked {
  readonly request: string;
  readonly options: AskOptions;
  readonly settle: (answer: Answer) => void;
}

/**
 * A helper that answers what the test says, when the test says it: for the rules of what is made of
 * answers. What a helper really answers is tested with the real one.
 */
export class ScriptedHelper implements MemberHelper {
  readonly asked: Asked[] = [];
  /** Answers every request at once while it is set. */
  always: ((request: string) => Answer) | undefined;
  /** Requests that were not yet answered, and the most that there ever were. */
  inFlight = 0;
  mostInFlight = 0;

  get requests(): readonly string[] {
    return this.asked.map(({ request }) => request);
  }

  /** Answers the oldest request that waits. */
  answer(answer: Answer): void {
    const next = this.asked.find((asked) => !this.#settled.has(asked));
    if (next === undefined) throw new Error('nothing was asked');
    next.settle(answer);
  }

  readonly #settled = new Set<Asked>();

  ask(request: string, options: AskOptions = {}): Promise<HelperAnswer> {
    this.inFlight++;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
    return new Promise((resolve, reject) => {
      const asked: Asked = {
        request,
        options,
        settle: (answer) => {
          this.#settled.add(asked);
          this.inFlight--;
          if (answer instanceof HelperError) reject(answer);
          else resolve({ lines: Lines.of(Buffer.from(answer)), rows: [], failure: null });
        },
      };
      this.asked.push(asked);
      if (this.always !== undefined) asked.settle(this.always(request));
    });
  }

  act(): Promise<HelperAnswer> {
    return Promise.reject(new HelperError('HELPER_FAILED', 'no acts here'));
  }
  start(): Promise<HelperAnswer> {
    return Promise.reject(new HelperError('HELPER_FAILED', 'no starts here'));
  }
  control(): Promise<ControlConnection> {
    return Promise.reject(new HelperError('HELPER_FAILED', 'no control here'));
  }
  async [Symbol.asyncDispose](): Promise<void> {}
}

export interface ScriptedServer {
  readonly path?: string;
  readonly code?: string;
  readonly detail?: string;
  readonly pid?: number | '';
  readonly ticks?: string;
  readonly state?: string;
  readonly cpu?: number;
  readonly openFiles?: number;
  readonly limit?: number;
  readonly version?: string;
  /** Names of sessions, each with one window and one pane. Default: `['main']`. */
  readonly sessions?: readonly string[];
  readonly titles?: readonly string[];
  /** What the panes say of themselves and run; default: a shell at its prompt. */
  readonly facts?: readonly Readonly<
    Partial<Record<'report' | 'doing' | 'agent' | 'lasting' | 'job', string>>
  >[];
  /** When something was last written in each window, in seconds since the epoch. */
  readonly writtenAt?: number;
  readonly clients?: readonly { readonly session: number; readonly pid: number }[];
  readonly extraRows?: readonly string[];
}

export interface ScriptedSnapshot {
  readonly servers?: readonly ScriptedServer[];
  readonly uptimeMs?: number;
  readonly directory?: { readonly code: string; readonly detail?: string };
  readonly dead?: number;
  /** What the helper calls this look. */
  readonly look?: string;
}

export const bootId = 'b0071d00-0000-4000-8000-000000000001';
export const directory = '/tmp/tmux-1000';
export const hex = (text: string) => Buffer.from(text).toString('hex');

/** Rows as libexec/muxwarden-member prints them. */
export function snapshotRows(snapshot: ScriptedSnapshot = {}): string {
  const { servers = [{}], uptimeMs = 1_000_000, dead = 0 } = snapshot;
  const place = snapshot.directory ?? { code: 'OK' };
  return [
    ['member', 1000, hex('alice'), hex('/home/alice'), bootId, 100, uptimeMs],
    ['fields', 'session', 'id', 'created', 'attached', 'name'],
    ['fields', 'window', 'session', 'id', 'index', 'active', 'layout', 'name'],
    ['fields', 'pane', ...paneFields],
    ['fields', 'client', 'session', 'pid', 'control'],
    ['directory', hex(directory), place.code, place.detail ?? ''],
    ['dead', hex(directory), dead],
    ...(snapshot.look === undefined ? [] : [['look', snapshot.look]]),
  ]
    .map((row) => `${row.join('\t')}\n`)
    .concat(servers.map(serverRows))
    .join('');
}

const paneFields =
  'session window id index active dead status signal pid mode columns rows tty command title start path report doing agent lasting job'.split(
    ' ',
  );

function serverRows(server: ScriptedServer): string {
  const { path = `${directory}/default`, code = 'OK', detail = '' } = server;
  const { pid = 4242, ticks = '777', state = 'S', cpu = 10, version = '3.3a' } = server;
  const { openFiles = 8, limit = 1024, sessions = ['main'], titles = [], clients = [] } = server;
  const { facts = [], writtenAt = 1_767_225_600 } = server;
  const gone = code === 'EDEAD';
  const life = gone || pid === '' ? ['', '', '', '', '', '', '', ''] : undefined;
  const process = life ?? [pid, ticks, state, cpu, openFiles, limit, 1_767_225_600_000, 0];
  const head = [
    'server',
    hex(path),
    code,
    detail,
    ...process,
    gone ? '' : version,
    hex('/usr/bin/tmux'),
  ];
  const rows: (readonly (string | number)[])[] = [head];
  if (code === 'OK') {
    rows.push(['identity', pid, 1_767_225_600]);
    for (const [id, name] of sessions.entries()) rows.push(['session', id, 1_767_225_600, 0, name]);
    for (const id of sessions.keys()) rows.push(['window', id, id, 0, 1, 'b25d,80x24,0,0,0', 'sh']);
    for (const id of sessions.keys()) {
      const title = titles[id] ?? 'host';
      const pane = [
        id,
        id,
        id,
        0,
        1,
        0,
        '',
        '',
        5000 + id,
        0,
        80,
        24,
        '/dev/pts/1',
        'sh',
        title,
        '',
      ];
      const { report = '', doing = 'shell', agent = '', lasting = '', job = '' } = facts[id] ?? {};
      rows.push(['pane', ...pane, hex('/home/alice'), report, doing, agent, lasting, job]);
    }
    for (const client of clients) rows.push(['client', client.session, client.pid, 0]);
  }
  const extra = (server.extraRows ?? []).map((row) => `${row}\n`).join('');
  const written =
    code === 'OK' ? [...sessions.keys()].map((id) => ['activity', id, writtenAt]) : [];
  const text = (some: typeof rows) => some.map((row) => `${row.join('\t')}\n`).join('');
  return text(rows) + extra + text(written);
}
