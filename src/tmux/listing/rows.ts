import { splitRows } from '../helper/answer.ts';
import type { Lines } from '../helper/lines.ts';
import { HelperError } from '../member-helper.ts';

/**
 * A snapshot of the helper, cut into its parts: what it says of the member, of the directories and
 * of each server's process. The rows of each server stay bytes: they are compared with those of the
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
  readonly rows: Lines;
  /** The rows that differ whenever something is written; the helper puts them last. */
  readonly written: string;
}

/** @throws HelperError MALFORMED_ANSWER: these rows are the helper's own words, so nothing is dropped */
export function parseSnapshot(lines: Lines): Snapshot {
  const starts = lines.beginningWith(kinds.server);
  const head = splitRows(lines.part(0, starts[0]).toString());
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
    servers: starts.map((start, index) => section(lines.part(start, starts[index + 1]))),
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

function section(lines: Lines): ServerSection {
  const fields = lines.text(0).split('\t');
  const [, pathHex, code, detail, pid, ticks, state, cpu, open, limit, started, deleted, version] =
    fields;
  if (!isHex(pathHex) || !code || version === undefined) throw malformed('server');
  let end = lines.count;
  const tellsOfWriting = (at: number) =>
    lines.begins(at, kinds.activity) || lines.begins(at, kinds.output);
  while (end > 1 && tellsOfWriting(end - 1)) end -= 1;
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
    rows: lines.part(1, end),
    written: lines.part(end).toString(),
  };
}

/** How lines of a kind begin. */
const kinds = {
  server: Buffer.from('server\t'),
  activity: Buffer.from('activity\t'),
  output: Buffer.from('output\t'),
};

export function whole(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function isHex(text: string | undefined): text is string {
  return text !== undefined && /^(?:[0-9a-f]{2})+$/.test(text);
}

function malformed(row: string): HelperError {
  return new HelperError('MALFORMED_ANSWER', `the helper's ${row} row can't be read`);
}
