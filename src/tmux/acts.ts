import type { Generation, PaneRef, ServerRef, ServerStatus, ServerView } from './model.ts';

/** What is done to tmux: each act is prepared, which looks, and then run, once its intent is on record. */

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
  /** Of a server that is to be ended: what it holds before; null where that is not known. */
  readonly holds?: readonly HeldSession[] | null;
  run(): Promise<Result>;
}

/** As the server tells them, neither escaped nor bounded. */
export interface HeldSession {
  readonly name: string;
  readonly directory: string;
  readonly windows: number;
  readonly panes: number;
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
