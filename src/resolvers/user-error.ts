import { AuditUnavailableError, IdempotencyConflictError } from '../audit/audit.ts';
import type { ErrorCode } from '../audit/record.ts';
import { ReauthenticationRequiredError } from '../auth/reauthentication.ts';
import {
  ListingUnknownError,
  NotFoundError,
  OperationInProgressError,
  OutcomeUnknownError,
  StaleGenerationError,
  TmuxServerBusyError,
  TmuxServerStuckError,
  UnsupportedError,
  WorkingDirectoryMissingError,
} from '../tmux/errors.ts';
import type { Reason, ServerStatus } from '../tmux/model.ts';

/**
 * Errors as data: what a caller can act on, as plain values that could be stored and sent. (An
 * `Error` that a resolver returns would be thrown by the executor, so it is never the value itself.)
 */

interface Said<Typename extends string, Code extends ErrorCode> {
  readonly __typename: Typename;
  readonly code: Code;
  readonly message: string;
}
export interface StaleGenerationValue extends Said<'StaleGenerationError', 'ESTALE'> {
  readonly expectedGeneration: string;
  readonly currentGeneration: string | null;
}
export interface TmuxServerStuckValue extends Said<'TmuxServerStuckError', 'ETMUXSTUCK'> {
  readonly pid: number;
  readonly status: ServerStatus;
  readonly socketPath: string;
}
export interface TmuxServerBusyValue extends Said<'TmuxServerBusyError', 'EBUSY'> {
  readonly evidence: readonly string[];
}
export interface OperationInProgressValue extends Said<'OperationInProgressError', 'EINPROGRESS'> {
  readonly operationId: string;
}
export interface ReauthenticationRequiredValue
  extends Said<'ReauthenticationRequiredError', 'EREAUTH'> {
  readonly attemptsLeft: number | null;
  readonly retryAt: Date | null;
}
export type AuditUnavailableValue = Said<'AuditUnavailableError', 'EAUDIT'>;
export interface ListingUnknownValue extends Said<'ListingUnknownError', 'ELISTING'> {
  readonly reason: Reason | null;
  readonly retryAt: Date | null;
}
export type IdempotencyConflictValue = Said<'IdempotencyConflictError', 'EIDEMPOTENCY'>;
export type NotFoundValue = Said<'NotFoundError', 'ENOTFOUND'>;
export interface WorkingDirectoryMissingValue
  extends Said<'WorkingDirectoryMissingError', 'ENOCWD'> {
  readonly path: string;
}
export interface UnsupportedValue extends Said<'UnsupportedError', 'EUNSUPPORTED'> {
  readonly tmuxVersion: string | null;
}
export interface OutcomeUnknownValue extends Said<'OutcomeUnknownError', 'EUNKNOWN'> {
  /** The outcome on record; whoever recorded it adds it. */
  readonly auditEventId: string | null;
}

export type UserErrorValue =
  | StaleGenerationValue
  | TmuxServerStuckValue
  | TmuxServerBusyValue
  | OperationInProgressValue
  | ReauthenticationRequiredValue
  | AuditUnavailableValue
  | ListingUnknownValue
  | IdempotencyConflictValue
  | NotFoundValue
  | WorkingDirectoryMissingValue
  | UnsupportedValue
  | OutcomeUnknownValue;

/** The data for a typed error, or undefined for anything that nobody expected. */
export function userErrorOf(error: unknown): UserErrorValue | undefined {
  if (!(error instanceof Error)) return undefined;
  const { message } = error;
  if (error instanceof StaleGenerationError)
    return {
      __typename: 'StaleGenerationError',
      code: 'ESTALE',
      message,
      expectedGeneration: error.expected,
      currentGeneration: error.current,
    };
  if (error instanceof NotFoundError)
    return { __typename: 'NotFoundError', code: 'ENOTFOUND', message };
  if (error instanceof ListingUnknownError) {
    const { reason, retryAt } = error;
    return { __typename: 'ListingUnknownError', code: 'ELISTING', message, reason, retryAt };
  }
  if (error instanceof TmuxServerStuckError) {
    const { pid, status, socketPath } = error;
    return {
      __typename: 'TmuxServerStuckError',
      code: 'ETMUXSTUCK',
      message,
      pid,
      status,
      socketPath,
    };
  }
  if (error instanceof TmuxServerBusyError) {
    const { evidence } = error;
    return { __typename: 'TmuxServerBusyError', code: 'EBUSY', message, evidence };
  }
  if (error instanceof OperationInProgressError) {
    const { operationId } = error;
    return { __typename: 'OperationInProgressError', code: 'EINPROGRESS', message, operationId };
  }
  if (error instanceof ReauthenticationRequiredError) {
    const { attemptsLeft, retryAt } = error;
    return {
      __typename: 'ReauthenticationRequiredError',
      code: 'EREAUTH',
      message,
      attemptsLeft,
      retryAt,
    };
  }
  if (error instanceof AuditUnavailableError)
    return { __typename: 'AuditUnavailableError', code: 'EAUDIT', message };
  if (error instanceof IdempotencyConflictError)
    return { __typename: 'IdempotencyConflictError', code: 'EIDEMPOTENCY', message };
  if (error instanceof WorkingDirectoryMissingError)
    return {
      __typename: 'WorkingDirectoryMissingError',
      code: 'ENOCWD',
      message,
      path: error.path,
    };
  if (error instanceof UnsupportedError) {
    const { tmuxVersion } = error;
    return { __typename: 'UnsupportedError', code: 'EUNSUPPORTED', message, tmuxVersion };
  }
  if (error instanceof OutcomeUnknownError)
    return { __typename: 'OutcomeUnknownError', code: 'EUNKNOWN', message, auditEventId: null };
  return undefined;
}

export type Named<Name> = Extract<UserErrorValue, { readonly __typename: Name }>;

/**
 * What `attempt` gives, or one of the expected errors as data: those that the result's union has.
 * Any other error is thrown on.
 */
export async function orUserError<T, Name extends UserErrorValue['__typename']>(
  expected: readonly Name[],
  attempt: () => Promise<T>,
): Promise<T | Named<Name>> {
  try {
    return await attempt();
  } catch (error) {
    const said = userErrorOf(error);
    if (said === undefined || !isNamed(said, expected)) throw error;
    return said;
  }
}

export function isNamed<Name extends UserErrorValue['__typename']>(
  said: UserErrorValue,
  names: readonly Name[],
): said is Named<Name> {
  return names.some((name) => name === said.__typename);
}
