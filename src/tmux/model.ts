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
