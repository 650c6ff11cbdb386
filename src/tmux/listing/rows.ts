import { splitRows } from '../helper/answer.ts';
import { HelperError } from '../member-helper.ts';

/**
 * A snapshot of the helper, cut into its parts: what it says of the member, of the directories and
 * of each server's process. The rows of each server stay text: they are compared with those of the
 * look before, and parsed (session-rows.ts) only where they differ.
 *
 * No field ever holds a byte below 0x20, so a line that begins with `server` is a server row.
 */
export interface Snapshot {
  readonly member: MemberRow;
  /** The names of the columns of each kind of row, as the helper orders them. */
  readonly columns: ReadonlyMap<string, readonly string[]>;
  readonly directories: readonly DirectoryRow[];
  /** Socket files of the member's that nobody listens on and nobody asked for. */
  readonly deadSockets: number;
  readonly servers: readonly ServerSection[];
  /** What the helper calls this look; whoever holds its rows says so in the next request. */
  readonly look: string | null;
}

export interface MemberRow {
  readonly uid: number;
  readonly bootId: string;
  readonly ticksPerSecond: number;
  readonly uptimeMs: number;
}

export interface DirectoryRow {
  readonly pathHex: string;
  readonly code: string;
  readonly detail: string;
}

/** What `/proc` and the socket say of a server; null where the helper could not tell. */
export interface ServerRow {
  readonly pathHex: string;
  readonly code: string;
  readonly detail: string;
  readonly pid: number | null;
  readonly ticks: string | null;
  /** As in `/proc/PID/stat`. */
  readonly processState: string | null;
  readonly cpuTicks: number | null;
  readonly openFiles: number | null;
  readonly openFilesLimit: number | null;
  /** Milliseconds since the epoch. */
  readonly startedAt: number | null;
  readonly binaryDeleted: boolean | null;
  readonly version: string | null;
}

export interface ServerSection extends ServerRow {
  readonly rows: string;
  /** The rows that differ whenever something is written; the helper puts them last. */
  readonly written: string;
}

/** @throws HelperError MALFORMED_ANSWER: these rows are the helper's own words, so nothing is dropped */
export function parseSnapshot(text: string): Snapshot {
  const starts: number[] = [];
  for (let at = lineOf(text, 'server'); at !== -1; at = lineOf(text, 'server', at + 1))
    starts.push(at);
  const head = splitRows(text.slice(0, starts[0] ?? text.length));
  const memberRow = head.find(([kind]) => kind === 'member');
  if (memberRow === undefined) throw malformed('member');
  return {
    member: member(memberRow),
    columns: new Map(
      head.filter(([kind]) => kind === 'fields').map(([, of = '', ...names]) => [of, names]),
    ),
    deadSockets: head
      .filter(([kind]) => kind === 'dead')
      .reduce((sum, [, , count]) => sum + (whole(count) ?? 0), 0),
    directories: head.filter(([kind]) => kind === 'directory').map(directory),
    look: lookName(head.find(([kind]) => kind === 'look')),
    servers: starts.map((start, index) => section(text.slice(start, starts[index + 1]))),
  };
}

function member([, uid, , , bootId, ticksPerSecond, uptimeMs]: readonly string[]): MemberRow {
  const parsed = {
    uid: whole(uid),
    ticksPerSecond: whole(ticksPerSecond),
    uptimeMs: whole(uptimeMs),
  };
  if (!bootId || !/^[0-9a-f-]{1,64}$/.test(bootId)) throw malformed('member');
  if (parsed.uid === null || !parsed.ticksPerSecond || parsed.uptimeMs === null) {
    throw malformed('member');
  }
  return {
    uid: parsed.uid,
    bootId,
    ticksPerSecond: parsed.ticksPerSecond,
    uptimeMs: parsed.uptimeMs,
  };
}

function lookName(row: readonly string[] | undefined): string | null {
  if (row !== undefined && !isHex(row[1])) throw malformed('look');
  return row?.[1] ?? null;
}

function directory([, pathHex, code, detail]: readonly string[]): DirectoryRow {
  if (!isHex(pathHex) || !code) throw malformed('directory');
  return { pathHex, code, detail: detail ?? '' };
}

function section(text: string): ServerSection {
  const lineEnd = text.indexOf('\n');
  const fields = text.slice(0, lineEnd).split('\t');
  const [, pathHex, code, detail, pid, ticks, state, cpu, open, limit, started, deleted, version] =
    fields;
  if (lineEnd === -1 || !isHex(pathHex) || !code || version === undefined) {
    throw malformed('server');
  }
  const rows = text.slice(lineEnd + 1);
  const written = [lineOf(rows, 'activity'), lineOf(rows, 'output')].filter((at) => at !== -1);
  const end = Math.min(rows.length, ...written);
  return {
    pathHex,
    code,
    detail: detail ?? '',
    pid: whole(pid) || null,
    ticks: ticks && /^\d{1,20}$/.test(ticks) ? ticks : null,
    processState: state || null,
    cpuTicks: whole(cpu),
    openFiles: whole(open),
    openFilesLimit: whole(limit),
    startedAt: whole(started),
    binaryDeleted: deleted === '1' ? true : deleted === '0' ? false : null,
    version: version || null,
    rows: rows.slice(0, end),
    written: rows.slice(end),
  };
}

/** Where the next line of that kind begins, or -1. */
function lineOf(text: string, kind: string, from = 0): number {
  if (from === 0 && text.startsWith(`${kind}\t`)) return 0;
  return text.indexOf(`\n${kind}\t`, Math.max(0, from - 1)) + 1 || -1;
}

export function whole(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function isHex(text: string | undefined): text is string {
  return text !== undefined && /^(?:[0-9a-f]{2})+$/.test(text);
}

function malformed(row: string): HelperError {
  return new HelperError('MALFORMED_ANSWER', `the helper's ${row} row can't be read`);
}
