import type { Readable, Writable } from 'node:stream';
import type { Lines } from './helper/lines.ts';

/**
 * What the rest of the adapter needs of one member's helper. The protocol is docs/helper-protocol.md;
 * helper.ts implements this over a real process.
 */

/** The process behind a socket, as every request on a server names it. */
export interface ServerTarget {
  readonly pathHex: string;
  readonly pid: number;
  readonly ticks: string;
  /** `#{start_time}`; the guard inside tmux compares it. */
  readonly tmuxStartTime: number;
}

export interface HelperAnswer {
  /** What stood between `begin` and `end`, for whoever compares before parsing. */
  readonly lines: Lines;
  /** Fields of each row between `begin` and `end`, decoded leniently as UTF-8. */
  readonly rows: readonly (readonly string[])[];
  /** The `fail` line, where the request as a whole failed. */
  readonly failure: { readonly code: string; readonly detail: string } | null;
}

/** No whole answer: why, in words that can be shown. Unknown, never "nothing". */
export class HelperError extends Error {
  override readonly name = 'HelperError';
  readonly reason:
    | 'HELPER_MISSING'
    | 'HELPER_FAILED'
    | 'TIMEOUT'
    | 'OUTPUT_TOO_LARGE'
    | 'MALFORMED_ANSWER'
    | 'EACCES';
  /** The CODE of a `fail` line, where the helper itself refused. */
  readonly code: string | null;
  constructor(
    reason: HelperError['reason'],
    message: string,
    options?: ErrorOptions & { readonly code?: string },
  ) {
    super(message, options);
    this.reason = reason;
    this.code = options?.code ?? null;
  }
}

/** A live `tmux -C attach`, past its `ready` line. */
export interface ControlConnection extends AsyncDisposable {
  /** Of the tmux client itself, so that it is not counted as somebody attached. */
  readonly pid: number;
  readonly version: string;
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves when the process is gone, however it ended. */
  readonly ended: Promise<void>;
}

export interface AskOptions {
  /** From when it is sent. Default: 3,000 for `ask` and `control`, 10,000 for `act`, 20,000 for `start`. */
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal;
  /** Also right after a helper failed; without it such an `ask` is refused until its back-off is over. */
  readonly pastBackOff?: boolean;
}

/** Requests are the words after the sequence number, for example `capture socket=… pane=3 lines=0`. */
export interface MemberHelper extends AsyncDisposable {
  /** A read, over the kept `serve` process. @throws HelperError */
  ask(request: string, options?: AskOptions): Promise<HelperAnswer>;
  /** One destructive request, by a process of its own. @throws HelperError (then it may have happened) */
  act(request: string, options?: AskOptions): Promise<HelperAnswer>;
  /** `start` with its plan. @throws HelperError (then it may have happened) */
  start(request: string, plan: Uint8Array, options?: AskOptions): Promise<HelperAnswer>;
  /** @throws HelperError */
  control(request: string, signal: AbortSignal): Promise<ControlConnection>;
}

/** The words that name a server in a request. */
export function serverWords(target: ServerTarget): string {
  return `socket=${target.pathHex} pid=${target.pid} ticks=${target.ticks} start=${target.tmuxStartTime}`;
}
