import { constants } from 'node:os';
import { parseReport, type Written } from '../agent.ts';
import type { Foreground, PaneView, SessionView, WindowView } from '../model.ts';
import { whole } from './rows.ts';

/**
 * The rows of one server, parsed: who answered, its sessions with their windows and panes, and its
 * clients.
 *
 * The helper names the columns of each kind, so their order is its own business.
 * A row that does not fit them, or hangs on a session or window that was not listed, is dropped and
 * counted: glued together from what is left it would be a lie.
 */
export interface SessionRows {
  /** `startTime` is null where an old tmux without sessions does not tell. */
  readonly identity: { readonly pid: number; readonly startTime: number | null } | null;
  /** In order of id; `attachedClients` and agents are filled in by whoever knows of them. */
  readonly sessions: readonly SessionView[];
  readonly clients: readonly ClientRow[];
  readonly dropped: number;
}

export interface ClientRow {
  readonly session: number | null;
  readonly pid: number;
}

/** Names of the columns after the first, by kind. */
export type Columns = ReadonlyMap<string, readonly string[]>;
/** The kind of each name that an agent goes by. */
export type AgentKinds = ReadonlyMap<string, string>;
type Fields = (name: string) => string;

export interface PanePlace {
  readonly session: number;
  readonly window: number;
  readonly pane: number;
  readonly index: number;
}

/** A pane at one of its places. */
export interface PaneRow extends PanePlace {
  readonly view: PaneView;
}

/** Reads single lines; undefined for one that is no pane's, or does not fit. */
export interface PaneParser {
  /** Of a line that was read before. */
  place(line: string): PanePlace | undefined;
  row(line: string): PaneRow | undefined;
}

interface WindowParts extends Omit<WindowView, 'panes'> {
  readonly panes: Map<number, PaneView>;
}
interface SessionParts extends Omit<SessionView, 'windows'> {
  readonly windows: Map<number, WindowParts>;
}

export function parseSessionRows(
  text: string,
  columns: Columns,
  agentKinds: AgentKinds,
): SessionRows {
  const places = new Map([...columns].map(([kind, names]) => [kind, placesOf(names)]));
  const sessions = new Map<number, SessionParts>();
  const clients: ClientRow[] = [];
  let identity: SessionRows['identity'] = null;
  let dropped = 0;

  for (const line of text.split('\n')) {
    if (line === '') continue;
    const row = line.split('\t');
    const kind = row[0] ?? '';
    if (kind === 'identity') {
      const pid = whole(row[1]);
      if (pid === null) dropped++;
      else identity = { pid, startTime: whole(row[2]) };
      continue;
    }
    const at = places.get(kind);
    const take = parsers[kind];
    const fits = at !== undefined && take !== undefined && row.length === at.size + 1;
    const field: Fields = (name) => row[at?.get(name) ?? -1] ?? '';
    if (!fits || !take(field, sessions, clients, agentKinds)) dropped++;
  }
  return { identity, sessions: assembled(sessions), clients, dropped };
}

export function paneParser(columns: Columns, agentKinds: AgentKinds): PaneParser {
  const at = placesOf(columns.get('pane') ?? []);
  const first = ['session', 'window', 'id', 'index'].map((name) => at.get(name) ?? -1);
  const upToPlace = Math.max(...first) + 1;
  const fieldOf = (row: readonly string[]) => (name: string) => row[at.get(name) ?? -1] ?? '';
  return {
    place(line) {
      const row = line.split('\t', upToPlace);
      return row[0] === 'pane' ? placeOf(fieldOf(row)) : undefined;
    },
    row(line) {
      const row = line.split('\t');
      const fits = row[0] === 'pane' && row.length === at.size + 1;
      return fits ? paneRow(fieldOf(row), agentKinds) : undefined;
    },
  };
}

function placesOf(names: readonly string[]): ReadonlyMap<string, number> {
  return new Map(names.map((name, at) => [name, at + 1]));
}

/** Each takes one row into what was read before; false when it does not fit. */
const parsers: Readonly<
  Record<
    string,
    (
      field: Fields,
      sessions: Map<number, SessionParts>,
      clients: ClientRow[],
      agentKinds: AgentKinds,
    ) => boolean
  >
> = {
  session(field, sessions) {
    const [session, created] = [whole(field('id')), whole(field('created'))];
    if (session === null || created === null) return false;
    sessions.set(session, {
      session,
      name: field('name'),
      createdAt: new Date(created * 1_000),
      attachedClients: null,
      windows: new Map(),
    });
    return true;
  },

  window(field, sessions) {
    const [session, window, index] = wholes(field, 'session', 'id', 'index');
    const owner = session === undefined ? undefined : sessions.get(session);
    if (owner === undefined || window === undefined || index === undefined) return false;
    const before = owner.windows.get(window);
    const active = field('active') === '1';
    // Linked twice into one session: once, at its lowest index.
    owner.windows.set(window, {
      window,
      index: Math.min(index, before?.index ?? index),
      name: field('name'),
      active: active || before?.active === true,
      layout: field('layout'),
      panes: before?.panes ?? new Map(),
    });
    return true;
  },

  pane(field, sessions, _clients, agentKinds) {
    const row = paneRow(field, agentKinds);
    const owner = row && sessions.get(row.session)?.windows.get(row.window);
    if (row === undefined || owner === undefined) return false;
    owner.panes.set(row.pane, row.view);
    return true;
  },

  client(field, _sessions, clients) {
    const pid = whole(field('pid'));
    if (pid === null) return false;
    clients.push({ session: whole(field('session')), pid });
    return true;
  },
};

function placeOf(field: Fields): PanePlace | undefined {
  const [session, window, pane, index] = wholes(field, 'session', 'window', 'id', 'index');
  if (session === undefined || window === undefined) return undefined;
  if (pane === undefined || index === undefined) return undefined;
  return { session, window, pane, index };
}

function paneRow(field: Fields, agentKinds: AgentKinds): PaneRow | undefined {
  const place = placeOf(field);
  const [columns, rows] = wholes(field, 'columns', 'rows');
  if (place === undefined || columns === undefined || rows === undefined) return undefined;
  const view = {
    pane: place.pane,
    index: place.index,
    title: field('title'),
    currentCommand: field('command') || null,
    currentPath: fromHex(field('path')),
    startCommand: field('start') || null,
    pid: whole(field('pid')) || null,
    tty: field('tty') || null,
    columns,
    rows,
    active: field('active') === '1',
    dead: field('dead') === '1',
    exitStatus: whole(field('status')),
    exitSignal: signalNumber(field('signal')),
    inMode: field('mode') !== '' && field('mode') !== '0',
    foreground: foreground(field, agentKinds),
    report: parseReport(field('report'), field('lasting')),
    agent: null,
  };
  return { ...place, view };
}

function foreground(field: Fields, agentKinds: AgentKinds): Foreground | null {
  const doing = field('doing');
  if (doing !== 'shell' && doing !== 'program') return null;
  return {
    isShell: doing === 'shell',
    agent: agentKinds.get(field('agent')) ?? null,
    job: field('job') || null,
  };
}

/** The rows that tell when something was last written. */
export function parseWritten(text: string): Written {
  const byPane = new Map<number, number>();
  const byWindow = new Map<number, number>();
  for (const line of text.split('\n')) {
    const [kind, id, seconds] = line.split('\t');
    const [of, at] = [whole(id), whole(seconds)];
    if (of === null || at === null) continue;
    if (kind === 'output') byPane.set(of, at);
    else if (kind === 'activity') byWindow.set(of, at);
  }
  return { byPane, byWindow };
}

function wholes(field: Fields, ...names: readonly string[]): readonly (number | undefined)[] {
  return names.map((name) => whole(field(name)) ?? undefined);
}

function assembled(sessions: ReadonlyMap<number, SessionParts>): readonly SessionView[] {
  return [...sessions.values()]
    .sort((one, other) => one.session - other.session)
    .map((session) => ({
      ...session,
      windows: [...session.windows.values()]
        .sort((one, other) => one.index - other.index)
        .map((window) => ({
          ...window,
          panes: [...window.panes.values()].sort((one, other) => one.index - other.index),
        })),
    }));
}

/** tmux tells the name where it knows one. */
function signalNumber(text: string): number | null {
  if (text === '') return null;
  const named = Object.entries(constants.signals).find(([name]) => name === `SIG${text}`);
  return named?.[1] ?? whole(text);
}

/** A directory may hold any byte; what is not UTF-8 is shown as U+FFFD. */
export function fromHex(hex: string): string | null {
  return hex === '' ? null : Buffer.from(hex, 'hex').toString('utf8');
}

/** With how many clients other than ours are attached to each session. */
export function withAttachedClients(
  sessions: readonly SessionView[],
  others: readonly ClientRow[],
): readonly SessionView[] {
  return sessions.map((session) => ({
    ...session,
    attachedClients: others.filter((client) => client.session === session.session).length,
  }));
}
