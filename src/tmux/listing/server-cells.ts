import type { Turn } from '../../concurrency/turn.ts';
import { type ServerChange, serverKey } from '../member-tmux.ts';
import type { AgentState, PaneRef, Reason, ServerRef, ServerView, SessionView } from '../model.ts';
import type { Moment } from './freshness.ts';
import type { DirectoryRow, MemberRow, ServerRow, Snapshot } from './rows.ts';
import { type CellContext, type CellRules, generationOf, ServerCell } from './server-cell.ts';
import { snapshotRequest } from './snapshot-request.ts';

/** How long, and how many, servers that ended are still shown. */
const absentMs = 600_000;
const maxAbsent = 64;

/**
 * All servers of a member, by identity. Acts of ours are numbered: a snapshot that began before the
 * last act on a server tells nothing of that server.
 */
export class ServerCells {
  readonly #memberId: string;
  readonly #rules: CellRules;
  readonly #cells = new Map<string, ServerCell>();
  #acts = 0;
  #bootId: string | undefined;
  /** The look whose rows all cells hold. */
  #held: string | null = null;

  constructor(memberId: string, rules: CellRules) {
    this.#memberId = memberId;
    this.#rules = rules;
  }

  /** How many acts of ours have ended. */
  get acts(): number {
    return this.#acts;
  }

  /** `everyone`: all are asked, also those whose pause is not over and those that rest. */
  request(
    directories: readonly string[],
    agents: readonly string[],
    now: number,
    everyone: boolean,
  ): string {
    const cells = [...this.#cells.values()].filter((cell) => cell.ref.generation === undefined);
    const absent = cells
      .filter((cell) => cell.absentSince !== undefined && now - cell.absentSince <= absentMs)
      .sort((one, other) => (other.absentSince ?? 0) - (one.absentSince ?? 0))
      .slice(0, maxAbsent);
    const skipped = everyone ? [] : cells.filter((cell) => cell.freshness.inBackOff(now));
    return snapshotRequest({
      directories,
      agents,
      held: everyone ? null : this.#held,
      skip: skipped.map((cell) => cell.ref.pathHex),
      extra: [...cells.filter((cell) => !cell.isAbsent), ...absent].map((cell) => cell.ref.pathHex),
    });
  }

  /**
   * `acts` is how many had ended when the snapshot began. True: some server is to be asked at once.
   * Server by server, each as a whole: acts of ours may end in between, as they may before.
   */
  async apply(
    snapshot: Snapshot,
    context: CellContext,
    acts: number,
    turn: Turn,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { member, directories, servers } = snapshot;
    this.#bootId = member.bootId;
    this.#held = null;
    const actsBefore = this.#acts;
    let held = snapshot.look;
    const seen = new Set<string>();
    let unasked = false;
    const taken = servers.filter(({ code }) => code === 'ETAKEN');
    for (const section of [...taken, ...servers.filter(({ code }) => code !== 'ETAKEN')]) {
      const cell = this.#cellOf(section, member);
      seen.add(serverKey(cell.ref));
      if (cell.actedAt <= acts) cell.apply(section, context);
      const rowsCame = section.code === 'OK' || section.code === 'SAME';
      if (rowsCame && (cell.actedAt > acts || cell.freshness.failing)) held = null;
      unasked ||= cell.unasked;
      await turn.over();
      if (signal.aborted) return false;
    }
    if (this.#acts === actsBefore) this.#held = held;
    const failing = directories.filter(isFailing);
    for (const [key, cell] of this.#cells) {
      if (seen.has(key) || cell.actedAt > acts) continue;
      const unreadable = failing.find(({ pathHex }) => isIn(cell.ref.pathHex, pathHex));
      if (unreadable === undefined) this.#cells.delete(key);
      else cell.lookFailed(directoryReason(unreadable), unreadable.detail);
    }
    return unasked;
  }

  /** Nobody could look at any of them. */
  lookFailed(reason: Reason, detail: string, acts: number): void {
    for (const cell of this.#cells.values()) {
      if (cell.actedAt <= acts) cell.lookFailed(reason, detail);
    }
  }

  change(ref: ServerRef, change: ServerChange, now: Moment): void {
    const key = serverKey(ref);
    const cell = this.#cells.get(key) ?? new ServerCell(ref, this.#rules);
    this.#cells.set(key, cell);
    cell.actedAt = ++this.#acts;
    this.#held = null;
    cell.change(change, this.#bootId, now);
  }

  /** A report about another life of the server is about nothing that is here. */
  report({ pathHex, generation, pane }: PaneRef, state: AgentState, at: number): void {
    const cell = this.#cells.get(serverKey({ pathHex }));
    if (cell?.generation === generation) cell.report(pane, state, at);
  }

  /** In order of path. */
  views(
    now: number,
    overdue: boolean,
    installedVersion: string | null,
    nextVersion: () => string,
  ): readonly ServerView[] {
    return [...this.#cells]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([, cell]) => cell.view(now, overdue, installedVersion, nextVersion));
  }

  lastSessions({ ref, generation }: ServerView): readonly SessionView[] | null {
    const cell = this.#cells.get(serverKey(ref));
    return cell === undefined || generation === null || cell.generation !== generation
      ? null
      : cell.lastSessions;
  }

  /** When the first of them changes by age alone. */
  changesAt(now: number, overdue: boolean): number {
    const times = [...this.#cells.values()].map(
      (cell) => cell.freshness.changesAt(now, overdue) ?? Number.POSITIVE_INFINITY,
    );
    return Math.min(Number.POSITIVE_INFINITY, ...times);
  }

  /**
   * The cell of that identity. Whoever lost its path to another is told apart by its generation, and
   * takes its rows along; also back again, when the path is its own once more.
   */
  #cellOf(row: ServerRow, member: MemberRow): ServerCell {
    const { pathHex } = row;
    const memberId = this.#memberId;
    const generation = generationOf(row, member);
    const lost = row.code === 'ETAKEN' && generation !== null;
    const ref = lost ? { memberId, pathHex, generation } : { memberId, pathHex };
    const key = serverKey(ref);
    const present = this.#cells.get(key);
    if (present !== undefined && (generation === null || present.generation === generation)) {
      return present;
    }
    const moved = [...this.#cells.values()].find(
      (cell) =>
        generation !== null && cell.ref.pathHex === pathHex && cell.generation === generation,
    );
    if (moved !== undefined) this.#cells.delete(serverKey(moved.ref));
    const cell = moved ?? present ?? new ServerCell(ref, this.#rules);
    cell.ref = ref;
    this.#cells.set(key, cell);
    return cell;
  }
}

/** A directory that is not there holds no sockets; every other one has to be read. */
export function isFailing({ code }: DirectoryRow): boolean {
  return code !== 'OK' && code !== 'ABSENT';
}

export function directoryReason({ code }: DirectoryRow): Reason {
  if (code === 'EACCES') return 'EACCES';
  if (code === 'ETOOBIG') return 'OUTPUT_TOO_LARGE';
  return code === 'EDIR' ? 'UNSAFE_DIRECTORY' : 'MALFORMED_ANSWER';
}

/** Whether that socket is directly in that directory; both as hex. */
function isIn(pathHex: string, directoryHex: string): boolean {
  if (!pathHex.startsWith(`${directoryHex}2f`)) return false;
  return !Buffer.from(pathHex.slice(directoryHex.length + 2), 'hex').includes('/');
}
