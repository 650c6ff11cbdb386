import { type HookReport, workingAgents } from '../agent.ts';
import { formatGeneration } from '../generation.ts';
import type { Lines } from '../helper/lines.ts';
import { isIdle, type ListedServer } from '../idle.ts';
import type { ServerChange } from '../member-tmux.ts';
import type {
  AgentState,
  Generation,
  Reason,
  ServerRef,
  ServerView,
  SessionView,
} from '../model.ts';
import { isOutdated } from '../tmux-version.ts';
import { attemptOf, CpuMeter, type Judgement, judge } from './census.ts';
import { Freshness, type FreshnessRules, type Moment } from './freshness.ts';
import { noPulse, type Pulse, pulseOf } from './pulse.ts';
import { noRows, partial, type Rows, type RowsContext, readRows, withOthers } from './read-rows.ts';
import type { MemberRow, ServerRow, ServerSection } from './rows.ts';
import { isAsIdle, looksTheSame } from './same-view.ts';
import { fromHex } from './session-rows.ts';

/**
 * What is known of one server: the last look at its process, and its last known rows with their own
 * freshness. Rows never outlive the generation that they were read from.
 */
export interface CellContext extends RowsContext {
  readonly member: MemberRow;
  /** Of the attempt. Ages count from its start, pauses from its end. */
  readonly started: Moment;
  readonly ended: Moment;
  /** For how long the wall clock was not set ahead. */
  readonly steadyMs: number;
}

export interface CellRules extends FreshnessRules {
  readonly idleAfterMs: number;
}

const emptyProcess = {
  pid: null,
  ticks: null,
  processState: null,
  cpuTicks: null,
  openFiles: null,
  openFilesLimit: null,
  startedAt: null,
  binaryDeleted: null,
  version: null,
} as const;

export class ServerCell {
  /** Changes with whether the path is its own. */
  ref: ServerRef;
  readonly freshness: Freshness;
  /** Number of our last act on it; a snapshot that began before tells nothing of it. */
  actedAt = 0;
  /** Its generation is new and nobody has asked it: ask at once. */
  unasked = false;
  /** Since when nobody listens. */
  absentSince: number | undefined;
  #row: ServerRow;
  #meter = new CpuMeter();
  #cpuPercent: number | null = null;
  #last: Judgement | undefined;
  #judgement: Judgement = { status: 'UNKNOWN', reason: 'NOT_YET_ASKED', detail: null };
  #rows: Rows | undefined;
  #pulse = noPulse;
  /** What hooks reported of panes of this life. */
  readonly #hooks = new Map<number, HookReport>();
  /** When the look began that the rows are of. */
  #lookedAt = 0;
  /** False after the wall clock was set ahead, until it no longer matters. */
  #knowsWhenWritten = true;
  #generation: Generation | null = null;
  #startTime: number | null = null;
  #startedAt: number | null = null;
  #view: ServerView | undefined;
  #lastWorking:
    | {
        readonly listed: readonly SessionView[];
        readonly agents: Pulse['agents'];
        readonly count: number | null;
      }
    | undefined;

  readonly #idleAfterMs: number;

  constructor(ref: ServerRef, rules: CellRules) {
    this.ref = ref;
    this.#idleAfterMs = rules.idleAfterMs;
    this.freshness = new Freshness(rules);
    this.#row = { pathHex: ref.pathHex, code: 'SKIPPED', detail: '', ...emptyProcess };
  }

  get generation(): Generation | null {
    return this.#generation;
  }

  /** Of the last answer of this life, however old it is by now. */
  get lastSessions(): readonly SessionView[] | null {
    return this.#rows === undefined ? null : this.#pulse.sessions;
  }

  get isAbsent(): boolean {
    return this.absentSince !== undefined;
  }

  apply(section: ServerSection, context: CellContext): void {
    const { rows, written, ...row } = section;
    // What could not be looked at keeps what was last known of the process.
    const seen = row.pid !== null || row.code === 'EDEAD';
    if (seen) this.#enter(generationOf(row, context.member));
    this.#row = seen ? row : { ...this.#row, code: row.code, detail: row.detail };
    // Computed from a clock that is set now and then: the first figure of a generation stays.
    this.#startedAt ??= row.startedAt;
    this.#cpuPercent = this.#meter.read(this.#row, context.member);
    this.absentSince =
      row.code === 'EDEAD' ? (this.absentSince ?? context.ended.monotonic) : undefined;

    const attempt = attemptOf(row);
    if (attempt?.asked === 'answered') this.#answered(rows, written, context);
    else if (attempt !== undefined) {
      const { reason, detail } = attempt;
      this.freshness.fail(reason, detail, attempt.asked === 'failed' ? context.ended : undefined);
    }
    this.unasked = attempt === undefined && !this.freshness.failing;
    this.#last = attempt ?? this.#last;
    this.#judgement = judge(this.#row, this.#last, this.freshness.failing, this.#cpuPercent);
  }

  /** Nobody could look: neither at its process nor at its rows. */
  lookFailed(reason: Reason, detail: string | null): void {
    if (this.isAbsent) return;
    this.freshness.fail(reason, detail);
    this.#judgement = { status: 'UNKNOWN', reason, detail };
  }

  /** What an act of ours did. */
  change(change: ServerChange, bootId: string | undefined, now: Moment): void {
    if (change.kind === 'touched') return;
    const none = { pathHex: this.ref.pathHex, detail: '', ...emptyProcess };
    if (change.kind === 'ended') {
      this.#enter(null);
      this.#row = { ...none, code: 'EDEAD' };
      this.#rows = noRows;
      this.absentSince = now.monotonic;
      this.freshness.succeed(now);
      this.#judgement = { status: 'ABSENT', reason: null, detail: null };
      return;
    }
    const { pid, ticks, version } = change;
    this.#enter(bootId === undefined ? null : formatGeneration({ bootId, pid, ticks }));
    this.#row = { ...none, code: 'SKIPPED', pid, ticks, version };
    this.#startedAt = now.wall;
    this.#startTime = change.tmuxStartTime;
    this.absentSince = undefined;
    this.#judgement = { status: 'RUNNING', reason: null, detail: null };
  }

  /** A hook told what the agent in a pane does. */
  report(pane: number, state: AgentState, at: number): void {
    const last = this.#hooks.get(pane);
    this.#hooks.set(pane, { state, since: last?.state === state ? last.since : at, at });
    if (this.#rows === undefined) return;
    const look = { at: this.#lookedAt, serverStartTime: this.#startTime, hooks: this.#hooks };
    this.#pulse = pulseOf(this.#pulse.text, this.#rows.listed, look, this.#pulse);
  }

  /** A report ends with its pane, and where a later look sees the pane back at its shell. */
  #dropHooks(listed: readonly SessionView[]): void {
    if (this.#hooks.size === 0) return;
    const views = listed.flatMap(({ windows }) => windows).flatMap(({ panes }) => panes);
    const panes = new Map(views.map((view) => [view.pane, view]));
    for (const [pane, { at }] of this.#hooks) {
      const view = panes.get(pane);
      if (at >= this.#lookedAt) continue;
      if (view === undefined || view.dead || view.foreground?.isShell) this.#hooks.delete(pane);
    }
  }

  #enter(generation: Generation | null): void {
    if (generation === this.#generation) return;
    this.#generation = generation;
    this.#hooks.clear();
    this.#startTime = null;
    this.#startedAt = null;
    this.#rows = undefined;
    this.#pulse = noPulse;
    this.#last = undefined;
    this.freshness.forget();
  }

  #answered(lines: Lines, written: string, context: CellContext): void {
    const { ownClientPids, started, steadyMs, ended } = context;
    if (this.#row.code === 'EDEAD') {
      this.#rows = noRows;
      this.freshness.succeed(started);
      return;
    }
    const before = this.#rows;
    if (this.#row.code === 'SAME' && before === undefined) {
      this.freshness.fail(
        'MALFORMED_ANSWER',
        'the helper refers to rows that it did not give',
        ended,
      );
      return;
    }
    if (before !== undefined && this.#row.code === 'SAME') {
      this.#rows = withOthers(before, ownClientPids);
    } else {
      const rows = readRows(before, lines, this.#row.pid, context);
      if (rows === undefined) {
        this.freshness.fail('MALFORMED_ANSWER', 'another process answered', ended);
        return;
      }
      this.#rows = rows;
      this.#startTime = rows.startTime ?? this.#startTime;
    }
    this.#lookedAt = started.wall;
    this.#knowsWhenWritten = steadyMs >= this.#idleAfterMs;
    this.#dropHooks(this.#rows.listed);
    const look = { at: started.wall, serverStartTime: this.#startTime, hooks: this.#hooks };
    const told = this.#row.code === 'SAME' ? this.#pulse.text : written;
    this.#pulse = pulseOf(told, this.#rows.listed, look, this.#pulse);
    this.freshness.succeed(started, partial(this.#row, this.#rows.dropped));
  }

  /** `version` makes the next version, asked for only when a reader sees something else. */
  view(
    now: number,
    overdue: boolean,
    installedVersion: string | null,
    version: () => string,
  ): ServerView {
    const row = this.#row;
    const listing = this.freshness.statusAt(now, this.#view?.listing.version ?? '', overdue);
    const rows = listing.state === 'UNKNOWN' ? undefined : this.#rows;
    const { sessions, agents, activity } = this.#pulse;
    const listed: ListedServer = {
      ref: this.ref,
      socketPath: fromHex(this.ref.pathHex) ?? '',
      ...this.#judgement,
      generation: this.#generation,
      pid: row.pid,
      startedAt: this.#startedAt === null ? null : new Date(this.#startedAt),
      version: row.version,
      installedVersion,
      outdated: isOutdated(row.version, installedVersion),
      binaryDeleted: row.binaryDeleted,
      openFiles: row.openFiles,
      openFilesLimit: row.openFilesLimit,
      cpuPercent: this.#cpuPercent,
      attachedClients: rows?.others.length ?? null,
      workingAgents: rows === undefined ? null : this.#working(rows.listed, agents),
      activity: rows === undefined || !this.#knowsWhenWritten ? noPulse.activity : activity,
      tmuxStartTime: this.#startTime,
      listing,
      sessions: rows === undefined ? null : sessions,
    };
    const view: ServerView = { ...listed, idle: this.#isIdle(listed) };
    this.#view =
      this.#view !== undefined && looksTheSame(this.#view, view)
        ? view
        : { ...view, listing: { ...listing, version: version() } };
    return this.#view;
  }

  #working(listed: readonly SessionView[], agents: Pulse['agents']): number | null {
    const last = this.#lastWorking;
    if (last?.listed === listed && last.agents === agents) return last.count;
    const count = workingAgents(listed, agents);
    this.#lastWorking = { listed, agents, count };
    return count;
  }

  /** As of the look: since then nobody has seen whether it still is. */
  #isIdle(listed: ListedServer): boolean | null {
    const last = this.#view;
    // Time that passes takes things out of the way, and puts none there.
    if (last !== undefined && last.idle !== false && isAsIdle(last, listed)) return last.idle;
    return isIdle(listed, listed.listing.observedAt ?? new Date(0), this.#idleAfterMs);
  }
}

export function generationOf(row: ServerRow, { bootId }: MemberRow): Generation | null {
  const { pid, ticks } = row;
  return pid === null || ticks === null ? null : formatGeneration({ bootId, pid, ticks });
}
