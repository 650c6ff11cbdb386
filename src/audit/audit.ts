import type { Bell } from '../concurrency/bell.ts';
import type { AuditEntry, AuditEvent } from './record.ts';

/** The record could not be written in time; nothing was done. */
export class AuditUnavailableError extends Error {
  override readonly name = 'AuditUnavailableError';
}

/** The record can't be read: the database is away. What is on record is not known, not nothing. */
export class AuditUnreadableError extends Error {
  override readonly name = 'AuditUnreadableError';
  constructor(cause: unknown) {
    super("The audit log can't be read now: the database does not answer. Ask again in a moment.", {
      cause,
    });
  }
}

/** The same idempotency key came with another input. */
export class IdempotencyConflictError extends Error {
  override readonly name = 'IdempotencyConflictError';
}

/** The same key and input came before, and that act has not ended yet (in another process). */
export class StillRunningError extends Error {
  override readonly name = 'StillRunningError';
  readonly operationId: string;
  constructor(operationId: string) {
    super('This act is still running. Ask again with the same key, later.');
    this.operationId = operationId;
  }
}

export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

export interface IdempotencyClaim {
  readonly actorId: string;
  readonly mutation: string;
  readonly key: string;
  /** SHA-256 of the canonical input, password left out. */
  readonly inputHash: Buffer;
}

/** The answer to an act, as it is stored for the next call with the same key. */
export interface Answered {
  readonly answer: Json;
  /** The outcome on record; undefined where there is none (yet). */
  readonly outcome: AuditEvent | undefined;
}

/** Rows where the actor or the target member is one of these; null: all rows. */
export interface AuditVisibility {
  readonly actorId: string | null;
  readonly memberIds: readonly string[];
}

export interface AuditFilter {
  readonly actorId?: string | undefined;
  readonly memberId?: string | undefined;
  readonly action?: readonly AuditEvent['action'][] | undefined;
  readonly phase?: AuditEvent['phase'] | undefined;
  readonly outcome?: readonly NonNullable<AuditEvent['outcome']>[] | undefined;
  readonly operationId?: string | undefined;
  /** Inclusive. */
  readonly from?: Date | undefined;
  /** Exclusive. */
  readonly to?: Date | undefined;
  /** Rows that the viewer may see: where actor or target member is in here; null: all. */
  readonly visibleTo: AuditVisibility | null;
}

export interface AuditPage {
  /** Newest first: descending time, then chain and sequence; the order never changes. */
  readonly edges: readonly { readonly cursor: string; readonly event: AuditEvent }[];
  readonly hasNextPage: boolean;
}

export interface AuditProblem {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
  readonly memberId: null;
}

/**
 * The record of acts. A row is in two places, the journal and the table, before anybody is told
 * that it is on record; "within 2 s or not at all" bounds every wait here.
 */
export interface Audit extends AsyncDisposable {
  /**
   * One row in journal and table within 2 s. A claim comes with the first row of an operation on
   * many; `answer` then gives it its answer, by the id of that row.
   * @throws AuditUnavailableError; StillRunningError where another process has the key
   */
  append(entry: AuditEntry, claim?: IdempotencyClaim): Promise<AuditEvent>;
  /**
   * The row that must be there before an act, in one transaction with the claim on its key.
   * @throws AuditUnavailableError: the act must not be done, and if the row did reach a disk, an
   * outcome row will say that it was not; StillRunningError where another process has the key
   */
  intend(entry: AuditEntry, claim?: IdempotencyClaim): Promise<AuditEvent>;
  /**
   * The outcome of `entry.intentId`, in one transaction with the answer for its key.
   * @throws AuditUnavailableError: it is not on record now, but will be when that is possible
   */
  conclude(entry: AuditEntry, answer: Json): Promise<AuditEvent>;
  /**
   * Runs `act`, or gives what the same claim was answered before; joins one that still runs. The
   * claim lives 24 h from `intend`; before that nothing is kept but the joining.
   * @throws AuditUnavailableError, IdempotencyConflictError, StillRunningError, and what `act` throws
   */
  once(claim: IdempotencyClaim, act: () => Promise<Answered>): Promise<Answered>;
  event(id: string): Promise<AuditEvent | undefined>;
  /** @throws RangeError on a cursor that no page gave */
  page(filter: AuditFilter, first: number, after?: string): Promise<AuditPage>;
  /**
   * Each row after the cursor once, in the order of each chain; from now on without one. The
   * visibility is asked for before every look; undefined ends the feed.
   * @throws RangeError on a cursor that no feed gave, or one that is ahead of the record
   */
  follow(
    after: string | undefined,
    visibleTo: () => AuditVisibility | null | undefined,
    signal: AbortSignal,
    /** Rings when what `visibleTo` answers may have changed. */
    changed?: Bell,
  ): Promise<AsyncIterable<{ readonly cursor: string; readonly event: AuditEvent }>>;
  /** Intents of our own chain that have no outcome. */
  openIntents(): Promise<readonly AuditEvent[]>;
  /** Outcomes of our own chain whose key has no answer yet, though its act does not run any more. */
  unanswered(): Promise<readonly AuditEvent[]>;
  /**
   * Gives the key that was claimed with that row its answer; null takes the claim back, for nothing
   * was done.
   */
  answer(rowId: string, answer: Json | null): Promise<void>;
  /** HMAC of a text that must not be in the record itself; lower-case hex. */
  digest(text: string): string;
  /**
   * Something that must not be hidden: logged, and a problem from now on, or until everything that
   * waits to be recorded is.
   */
  alarm(problem: Omit<AuditProblem, 'memberId'>, until?: 'restart' | 'recorded'): void;
  problems(): readonly AuditProblem[];
  /** Rings when rows were added, here or by another process. */
  readonly added: Bell;
  /** Rings when rows that the table had lost are in it again; the answers to their keys are not. */
  readonly restored: Bell;
}
