/**
 * What the adapter says about tmux, as plain data: nothing here knows processes, sockets, GraphQL
 * or SQL, and everything could cross a network.
 *
 * Two rules hold for every value. Unknown is `null`, with a state, a reason and an age beside it;
 * an empty list means that the tmux server itself said so. And a handle (`PaneRef` …) carries the
 * generation of its server, since tmux hands `%0` out again after every restart.
 */

export const reasons = [
  'EACCES',
  'TIMEOUT',
  'OUTPUT_TOO_LARGE',
  'MALFORMED_ANSWER',
  'HELPER_MISSING',
  'HELPER_FAILED',
  'BACKLOG_FULL',
  'DESCRIPTORS_EXHAUSTED',
  'SOCKET_LOST',
  'PATH_TAKEN',
  'STALE_SOCKET',
  'UNSAFE_DIRECTORY',
  'FOREIGN_OWNER',
  'PATH_TOO_LONG',
  'NOT_TMUX',
  'BINARY_UNREADABLE',
  'VERSION_MISMATCH',
  'NOT_YET_ASKED',
] as const;
export type Reason = (typeof reasons)[number];

export const listingStates = ['FRESH', 'STALE', 'UNKNOWN'] as const;
export type ListingState = (typeof listingStates)[number];

export const serverStatuses = [
  'ABSENT',
  'RUNNING',
  'STOPPED',
  'SPINNING',
  'UNRESPONSIVE',
  'UNKNOWN',
] as const;
export type ServerStatus = (typeof serverStatuses)[number];

export const agentStates = ['WORKING', 'WAITING', 'IDLE', 'UNKNOWN'] as const;
export type AgentState = (typeof agentStates)[number];

export const agentEvidences = ['SELF_REPORT', 'HOOK', 'PROCESS', 'OUTPUT', 'TITLE'] as const;
export type AgentEvidence = (typeof agentEvidences)[number];

/** An account whose tmux is looked at. `osUser` is null for an account without a Linux user. */
export interface Account {
  readonly memberId: string;
  readonly osUser: string | null;
}

/** `bootId:pid:startTicks`: one life of a tmux server. */
export type Generation = string;

/** A tmux server: identity, stable over restarts. The path travels as hex, for it may hold any byte. */
export interface ServerRef {
  readonly memberId: string;
  readonly pathHex: string;
  /** Only for a server that lost its path to another one. */
  readonly generation?: Generation;
}

interface InGeneration {
  readonly memberId: string;
  readonly pathHex: string;
  readonly generation: Generation;
}
/** `session` is tmux's `$n` as a number; likewise `window` for `@n` and `pane` for `%n`. */
export interface SessionRef extends InGeneration {
  readonly session: number;
}
/** A window as linked into one session. */
export interface WindowRef extends SessionRef {
  readonly window: number;
}
export interface PaneRef extends InGeneration {
  readonly pane: number;
}

/** How good a listing is, and when it will be better. */
export interface ListingStatus {
  readonly state: ListingState;
  /** Opaque; differs whenever what a reader sees differs, also across our own restarts. */
  readonly version: string;
  readonly observedAt: Date | null;
  readonly reason: Reason | null;
  readonly detail: string | null;
  readonly consecutiveFailures: number;
  readonly nextAttemptAt: Date | null;
}

export interface MemberListing {
  readonly memberId: string;
  readonly status: ListingStatus;
  /** Null: could not look. Empty: looked, and there is none. Sorted by path. */
  readonly servers: readonly ServerView[] | null;
}

export interface ServerView {
  readonly ref: ServerRef;
  /** For people: decoded leniently. */
  readonly socketPath: string;
  readonly status: ServerStatus;
  readonly reason: Reason | null;
  readonly detail: string | null;
  readonly generation: Generation | null;
  readonly pid: number | null;
  readonly startedAt: Date | null;
  /** As the server's own binary says, for example `3.3a`. */
  readonly version: string | null;
  readonly installedVersion: string | null;
  readonly outdated: boolean | null;
  readonly binaryDeleted: boolean | null;
  readonly openFiles: number | null;
  readonly openFilesLimit: number | null;
  /** Of one core, over the last two looks. */
  readonly cpuPercent: number | null;
  /** Clients that are not ours. */
  readonly attachedClients: number | null;
  /** As of the look that the listing is of: proved, proved not, or not known. */
  readonly idle: boolean | null;
  /** Panes whose agent is WORKING; null where what runs in some pane is not known. */
  readonly workingAgents: number | null;
  /** When something was last written in each window; whole seconds, and no change to a reader. */
  readonly activity: readonly WindowActivity[];
  /** `#{start_time}` of the server, seconds since the epoch: the guard inside tmux compares it. */
  readonly tmuxStartTime: number | null;
  readonly listing: ListingStatus;
  /** In order of session id. */
  readonly sessions: readonly SessionView[] | null;
}

export interface WindowActivity {
  readonly window: number;
  readonly at: Date;
}

export interface SessionView {
  readonly session: number;
  readonly name: string;
  readonly createdAt: Date;
  readonly attachedClients: number | null;
  /** In order of index; a window linked twice into this session appears once, at its lowest index. */
  readonly windows: readonly WindowView[];
}

export interface WindowView {
  readonly window: number;
  readonly index: number;
  readonly name: string;
  readonly active: boolean;
  /** As this tmux prints `#{window_layout}`. */
  readonly layout: string;
  readonly panes: readonly PaneView[];
}

export interface PaneView {
  readonly pane: number;
  readonly index: number;
  readonly title: string;
  readonly currentCommand: string | null;
  readonly currentPath: string | null;
  readonly startCommand: string | null;
  readonly pid: number | null;
  readonly tty: string | null;
  readonly columns: number;
  readonly rows: number;
  readonly active: boolean;
  readonly dead: boolean;
  readonly exitStatus: number | null;
  readonly exitSignal: number | null;
  readonly inMode: boolean;
  /** Null: not known. */
  readonly foreground: Foreground | null;
  /** What its option `@agent_state` says, believed or not. */
  readonly report: AgentReport | null;
  readonly agent: AgentView | null;
}

/** What runs in the terminal of a pane, as the process table says. */
export interface Foreground {
  /** The pane's own shell, at its prompt. */
  readonly isShell: boolean;
  /** The kind of agent that is known by this name. */
  readonly agent: string | null;
  /** A process beside the foreground, running or suspended: a name. */
  readonly job: string | null;
}

export interface AgentReport {
  readonly state: AgentState;
  /** Seconds since the epoch, as the report says. */
  readonly at: number | null;
  /** The program in the foreground was there when the report was made; null: not known. */
  readonly isOfProgram: boolean | null;
}

export interface AgentView {
  readonly kind: string;
  readonly state: AgentState;
  /** Since when, as it says itself. */
  readonly since: Date | null;
  readonly evidence: AgentEvidence;
}

/** The state of one followed member changed, or the member is gone. */
export type ListingChange =
  | { readonly kind: 'listing'; readonly listing: MemberListing }
  | { readonly kind: 'synced'; readonly at: Date }
  | { readonly kind: 'removed'; readonly memberId: string };

export interface PaneCapture {
  /** Bytes as `capture-pane -e -p` prints them, rows ended by LF. */
  readonly data: Uint8Array;
  readonly columns: number;
  readonly rows: number;
  readonly cursorColumn: number;
  readonly cursorRow: number;
  readonly observedAt: Date;
}

export type PaneSource = 'CONTROL_CLIENT' | 'CAPTURE';
export type PaneGapReason =
  | 'SLOW_READER'
  | 'LOG_TRIMMED'
  | 'SERVICE_RESTARTED'
  | 'RECONNECTED'
  | 'TMUX_PAUSED'
  | 'OVERLOAD';
export type PaneCloseReason =
  | 'EXITED'
  | 'PANE_KILLED'
  | 'SESSION_KILLED'
  | 'SERVER_RESTARTED'
  | 'SERVER_LOST'
  | 'PERMISSION_WITHDRAWN'
  | 'SERVICE_DRAINING';

/** Between control sequences, or where in one. */
export type SequenceState = 'text' | 'escape' | 'intermediate' | 'parameters' | 'string';

/** Positions are opaque cursors that `output(pane, after)` takes again. */
export type PaneOutputEvent =
  | {
      readonly kind: 'snapshot';
      readonly cursor: string;
      readonly at: Date;
      readonly data: Uint8Array;
      readonly columns: number;
      readonly rows: number;
      readonly cursorColumn: number;
      readonly cursorRow: number;
      readonly alternateScreen: boolean;
      readonly source: PaneSource;
      /** The rows alone, with colours and styles, each ended by LF. */
      readonly screen: Uint8Array;
    }
  | {
      readonly kind: 'chunk';
      readonly cursor: string;
      readonly at: Date;
      readonly data: Uint8Array;
      /** The incomplete UTF-8 sequence (0 to 3 bytes) that stood right before `data`. */
      readonly carry: Uint8Array;
      /** In which control sequence `data` begins. */
      readonly state: SequenceState;
    }
  | {
      readonly kind: 'resized';
      readonly cursor: string;
      readonly columns: number;
      readonly rows: number;
    }
  | {
      readonly kind: 'gap';
      readonly cursor: string;
      /** Null where nobody counted, as across our own restart. */
      readonly missedBytes: number | null;
      readonly reason: PaneGapReason;
    }
  | {
      readonly kind: 'closed';
      readonly cursor: string;
      readonly reason: PaneCloseReason;
      readonly exitStatus: number | null;
      readonly exitSignal: number | null;
    };

type PaneEventOf<Kind> = Extract<PaneOutputEvent, { readonly kind: Kind }>;

/** A pane as pictures; a cursor leads to what `output` has after them. */
export type PaneScreenEvent =
  | (Omit<PaneEventOf<'snapshot'>, 'kind' | 'data' | 'source'> & { readonly kind: 'screen' })
  | PaneEventOf<'closed'>;

export interface Survivor {
  readonly pid: number;
  readonly command: string;
}
export interface NotRestored {
  readonly what: string;
  readonly detail: string;
}
/** A server before or after an act, as the audit log keeps it. */
export interface ServerState {
  readonly generation: Generation | null;
  readonly pid: number | null;
  readonly version: string | null;
  readonly status: ServerStatus;
  readonly sessionCount: number | null;
}

export interface RestartServerRequest {
  readonly server: ServerRef;
  readonly expectedGeneration: Generation;
  /** Looked at again as the last thing before the act. */
  readonly onlyIfIdle: boolean;
  readonly continueStopped: boolean;
  readonly force: boolean;
  readonly restore: 'NONE' | 'LAYOUT';
  readonly restoreCommands: readonly {
    readonly pane: PaneRef;
    readonly command: readonly string[];
  }[];
  /** Shown to whoever is refused while this one runs. */
  readonly operationId: string;
}
export interface RestartServerResult {
  readonly server: ServerView;
  readonly after: ServerState;
  readonly survivors: readonly Survivor[];
  readonly notRestored: readonly NotRestored[];
}
export const repairs = ['RAISE_DESCRIPTOR_LIMIT', 'RECREATE_SOCKET', 'CONTINUE_STOPPED'] as const;
export type Repair = (typeof repairs)[number];
export interface RepairServerRequest {
  readonly server: ServerRef;
  readonly expectedGeneration: Generation;
  readonly repair: Repair;
  readonly operationId: string;
}
export interface RepairServerResult {
  readonly after: ServerState;
  /** It was sent, and the server ended meanwhile, or when it ran again. */
  readonly ended: boolean;
}
export interface RestartPaneRequest {
  readonly pane: PaneRef;
  readonly operationId: string;
}
export interface RestartPaneResult {
  /** Null when it is gone by now. */
  readonly pane: PaneRef | null;
  readonly after: ServerState;
  readonly survivors: readonly Survivor[];
}

/**
 * An act that holds its server's lock and has been looked at again: what it found is `before`.
 * Nothing has been sent yet. The caller puts the intent on record, then calls `run` once; disposing
 * gives the lock back. `run` verifies by looking and throws `TmuxServerStuckError`,
 * `OutcomeUnknownError` or another typed error of errors.ts when it did not succeed.
 */
export interface PreparedAct<Result> extends Disposable {
  readonly before: ServerState;
  /** For the audit log: names, escaped and bounded. */
  readonly targetLabel: string;
  run(): Promise<Result>;
}

export const provisionActions = ['CREATE', 'SUSPEND', 'RESUME', 'DELETE'] as const;
export type ProvisionAction = (typeof provisionActions)[number];
export interface ProvisionRequest {
  readonly login: string;
  /** The member's Linux user as it is now; an account that was not made here is not touched. */
  readonly osUser: string | null;
  readonly action: ProvisionAction;
  readonly operationId: string;
}
export interface ProvisionResult {
  /** The name of the Linux account. */
  readonly account: string;
  readonly done: readonly string[];
  readonly removed: readonly string[];
  /** Processes of the account that were ended, tmux servers first; the first 100. */
  readonly ended: readonly Survivor[];
}
/** Looked at, and nothing done yet. Holds the account's lock until it is disposed of. */
export interface PreparedProvision extends Disposable {
  readonly account: string;
  /** @throws UnsupportedError, OutcomeUnknownError */
  run(): Promise<ProvisionResult>;
}

export interface Problem {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
  readonly memberId: string | null;
}

export interface FleetFigures {
  readonly installedTmuxVersion: string | null;
  readonly tmuxBinary: string | null;
  /** Helper processes started since our start. */
  readonly helperCalls: number;
  readonly liveSockets: number;
  readonly orphanedSockets: number;
}

/**
 * Every member's tmux. Reads come from memory; nothing here makes a caller wait for a member but
 * `read` of a cold listing (2 s at most), `refresh`, `capture` and the acts.
 */
export interface Fleet extends AsyncDisposable {
  /** Whose tmux to look at, from now on. */
  setAccounts(accounts: readonly Account[]): void;
  /** What is known now; asks nobody. Undefined for a member that the fleet does not know. */
  peek(memberId: string): MemberListing | undefined;
  /** Another number whenever `peek` may give another listing, of anybody, than before; asks nobody. */
  edition(): number;
  /** What is known, asking behind the answer when it is old; waits (2 s at most) only when cold. */
  read(memberId: string): Promise<MemberListing | undefined>;
  /** Asks now, past any back-off, and answers within its bound of 3 s. */
  refresh(memberId: string): Promise<MemberListing | undefined>;
  /**
   * The state of each member, then `synced`, then changes; the latest value for a slow reader.
   * `memberIds` is looked at again whenever members come or go. Keeps the listings warm.
   */
  follow(memberIds: () => readonly string[], signal: AbortSignal): AsyncIterable<ListingChange>;
  /** @throws StaleGenerationError, NotFoundError, ListingUnknownError, RangeError on a bad `after` (all on the first step). */
  output(
    pane: PaneRef,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncIterable<PaneOutputEvent>;
  /** The screen whenever it changed, `everyMs` apart at least. @throws as `output` */
  screens(pane: PaneRef, everyMs: number, signal: AbortSignal): AsyncIterable<PaneScreenEvent>;
  /** `lines` of history above the visible screen. @throws as `output` */
  capture(pane: PaneRef, lines: number, signal?: AbortSignal): Promise<PaneCapture>;
  /**
   * @throws OperationInProgressError at once while another restart or repair of that server runs;
   * StaleGenerationError, NotFoundError, ListingUnknownError, TmuxServerStuckError, TmuxServerBusyError,
   * UnsupportedError.
   */
  prepareRestartServer(request: RestartServerRequest): Promise<PreparedAct<RestartServerResult>>;
  /** Waits for the server's lock. @throws as above, and WorkingDirectoryMissingError */
  prepareRestartPane(request: RestartPaneRequest): Promise<PreparedAct<RestartPaneResult>>;
  /**
   * What lives in the panes of a server and would end with it. Asks.
   * @throws StaleGenerationError, ListingUnknownError, NotFoundError
   */
  wouldEnd(server: ServerRef, expected: Generation): Promise<readonly Survivor[]>;
  /**
   * Lasts until the repair is seen, or 10 s.
   * @throws as `prepareRestartServer`; UnsupportedError also where there is nothing to repair
   */
  prepareRepairServer(request: RepairServerRequest): Promise<PreparedAct<RepairServerResult>>;
  /**
   * A Linux account for a member, made, suspended, given back or removed on this machine.
   * @throws OperationInProgressError, UnsupportedError
   */
  prepareProvision(request: ProvisionRequest): Promise<PreparedProvision>;
  /** Where a server is now, looked at for the reconciliation at start. Asks. */
  look(server: ServerRef): Promise<ServerState>;
  problems(): readonly Problem[];
  figures(): FleetFigures;
}
