import type { Generation, Reason, ServerStatus } from './model.ts';

/** The id names an earlier (or other) life of that server. Nothing was read or touched. */
export class StaleGenerationError extends Error {
  override readonly name = 'StaleGenerationError';
  readonly expected: Generation;
  readonly current: Generation | null;
  constructor(expected: Generation, current: Generation | null, options?: ErrorOptions) {
    super(
      'This id belongs to an earlier life of the tmux server. List the server again and use the new id.',
      options,
    );
    this.expected = expected;
    this.current = current;
  }
}

/** The server was asked and says that there is no such thing. */
export class NotFoundError extends Error {
  override readonly name = 'NotFoundError';
  constructor(what = 'It', options?: ErrorOptions) {
    super(`${what} does not exist, or is not yours to see.`, options);
  }
}

/** We could not ask, so we do not say. */
export class ListingUnknownError extends Error {
  override readonly name = 'ListingUnknownError';
  readonly reason: Reason | null;
  readonly retryAt: Date | null;
  constructor(
    reason: Reason | null,
    retryAt: Date | null,
    detail?: string | null,
    options?: ErrorOptions,
  ) {
    super(
      `The listing is not known${detail ? `: ${detail}` : reason ? ` (${reason})` : ''}. Try again later, or ask now by refreshListing.`,
      options,
    );
    this.reason = reason;
    this.retryAt = retryAt;
  }
}

/** The server neither ended nor can be asked to; the pid is for root. */
export class TmuxServerStuckError extends Error {
  override readonly name = 'TmuxServerStuckError';
  readonly pid: number;
  readonly status: ServerStatus;
  readonly socketPath: string;
  /** True when something was sent that may still take effect. */
  readonly mayStillHappen: boolean;
  constructor(
    pid: number,
    status: ServerStatus,
    socketPath: string,
    mayStillHappen: boolean,
    message: string,
  ) {
    super(message);
    this.pid = pid;
    this.status = status;
    this.socketPath = socketPath;
    this.mayStillHappen = mayStillHappen;
  }
}

/** It was to be acted on only if it is idle, and that is not proved. Nothing was sent. */
export class TmuxServerBusyError extends Error {
  override readonly name = 'TmuxServerBusyError';
  readonly evidence: readonly string[];
  constructor(evidence: readonly string[]) {
    super(
      `The tmux server is not proved idle: ${evidence.join('; ')}. Wait, or ask without onlyIfIdle.`,
    );
    this.evidence = evidence;
  }
}

/** Another restart or repair of this server is under way. */
export class OperationInProgressError extends Error {
  override readonly name = 'OperationInProgressError';
  readonly operationId: string;
  constructor(operationId: string) {
    super(
      'Another operation on this tmux server is under way. Wait for it, look again, then decide.',
    );
    this.operationId = operationId;
  }
}

/** The directory that a pane would start in is gone, is none, or is not the member's to enter. */
export class WorkingDirectoryMissingError extends Error {
  override readonly name = 'WorkingDirectoryMissingError';
  readonly path: string;
  constructor(path: string, detail: string) {
    super(`The working directory can't be used: ${detail}. Make it again, then retry.`);
    this.path = path;
  }
}

/** This tmux, or this machine, can't do it; nothing was sent. */
export class UnsupportedError extends Error {
  override readonly name = 'UnsupportedError';
  readonly tmuxVersion: string | null;
  constructor(message: string, tmuxVersion: string | null = null) {
    super(message);
    this.tmuxVersion = tmuxVersion;
  }
}

/** Sent but not confirmed: it may still happen. Never repeated by us. */
export class OutcomeUnknownError extends Error {
  override readonly name = 'OutcomeUnknownError';
}

/** Of a pane, before anything was read or done. */
export type Refusal = StaleGenerationError | NotFoundError | ListingUnknownError;

export function isRefusal(error: unknown): error is Refusal {
  return (
    error instanceof StaleGenerationError ||
    error instanceof NotFoundError ||
    error instanceof ListingUnknownError
  );
}
