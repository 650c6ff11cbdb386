import { isDeepStrictEqual } from 'node:util';
import { Lines } from '../helper/lines.ts';
import type { SessionView } from '../model.ts';
import { withChangedPanes } from './changed-panes.ts';
import type { Trouble } from './freshness.ts';
import type { ServerRow } from './rows.ts';
import {
  type AgentKinds,
  type ClientRow,
  type Columns,
  type PaneParser,
  parseSessionRows,
  withAttachedClients,
} from './session-rows.ts';

/**
 * The rows of one server's sessions, windows, panes and clients as they were told last. What is told
 * anew is compared with them as bytes first: where only lines of panes differ, only these are parsed.
 */
export interface Rows {
  readonly lines: Lines;
  /** Each pane has exactly one of them, so that lines can stand for panes. */
  readonly areOfPanes: boolean;
  /** Without agents: what they do depends on when one looks. */
  readonly listed: readonly SessionView[];
  readonly clients: readonly ClientRow[];
  readonly others: readonly ClientRow[];
  readonly dropped: number;
  /** As tmux says it, in seconds; null where it said none. */
  readonly startTime: number | null;
}

export interface RowsContext {
  readonly columns: Columns;
  readonly agentKinds: AgentKinds;
  readonly paneParser: PaneParser;
  readonly ownClientPids: ReadonlySet<number>;
}

/** Of a server that has ended. */
export const noRows: Rows = {
  lines: Lines.none,
  areOfPanes: false,
  listed: [],
  clients: [],
  others: [],
  dropped: 0,
  startTime: null,
};

/** Undefined where the rows are another process's than that of `pid`. */
export function readRows(
  before: Rows | undefined,
  told: Lines,
  pid: number | null,
  { columns, agentKinds, paneParser, ownClientPids }: RowsContext,
): Rows | undefined {
  if (before !== undefined && before.lines.count === told.count) {
    const differing = told.differing(before.lines);
    if (differing.length === 0) return withOthers(before, ownClientPids);
    const pairs = differing.map((at) => [before.lines.text(at), told.text(at)] as const);
    const listed = before.areOfPanes
      ? withChangedPanes(before.listed, pairs, paneParser)
      : undefined;
    if (listed !== undefined)
      return withOthers({ ...before, lines: told.kept(), listed }, ownClientPids);
  }
  const lines = told.kept();
  const text = lines.toString();
  const { identity, sessions, clients, dropped } = parseSessionRows(text, columns, agentKinds);
  if (identity?.pid !== pid) return undefined;
  const others = clients.filter((client) => !ownClientPids.has(client.pid));
  const attached = withAttachedClients(sessions, others);
  const listed = before && isDeepStrictEqual(attached, before.listed) ? before.listed : attached;
  const panes = text.split('\n').filter((line) => line.startsWith('pane\t')).length;
  const areOfPanes = panes === countPanes(listed);
  return { lines, areOfPanes, listed, clients, others, dropped, startTime: identity.startTime };
}

function countPanes(sessions: readonly SessionView[]): number {
  const windows = sessions.flatMap((session) => session.windows);
  return windows.reduce((sum, { panes }) => sum + panes.length, 0);
}

/** The same rows seen with other clients of ours known by now. */
export function withOthers(rows: Rows, ownClientPids: ReadonlySet<number>): Rows {
  const others = rows.clients.filter((client) => !ownClientPids.has(client.pid));
  if (others.length === rows.others.length) return rows;
  return { ...rows, others, listed: withAttachedClients(rows.listed, others) };
}

/** Rows that the helper or we had to drop: the rest is shown, and said not to be all. */
export function partial(row: ServerRow, dropped: number): Trouble | undefined {
  const byHelper = Number(/^dropped=(\d{1,9})$/.exec(row.detail)?.[1] ?? 0);
  const count = dropped + byHelper;
  if (count === 0) return undefined;
  const detail = `${count} ${count === 1 ? 'row' : 'rows'} could not be read and ${count === 1 ? 'is' : 'are'} left out`;
  return { reason: 'MALFORMED_ANSWER', detail };
}
