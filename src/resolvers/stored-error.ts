import { z } from 'zod';
import type { Json } from '../audit/audit.ts';
import { reasons, serverStatuses } from '../tmux/model.ts';
import type { UserErrorValue } from './user-error.ts';

/** Errors as data, stored as the answer to an idempotency key, and read back. */

const said = <Typename extends string, Code extends string>(typename: Typename, code: Code) => ({
  __typename: z.literal(typename),
  code: z.literal(code),
  message: z.string(),
});
const text = z.string().nullable();
const moment = z.iso
  .datetime()
  .transform((value) => new Date(value))
  .nullable();

const stored: z.ZodType<UserErrorValue> = z.discriminatedUnion('__typename', [
  z.object({
    ...said('StaleGenerationError', 'ESTALE'),
    expectedGeneration: z.string(),
    currentGeneration: text,
  }),
  z.object({
    ...said('TmuxServerStuckError', 'ETMUXSTUCK'),
    pid: z.int(),
    status: z.enum(serverStatuses),
    socketPath: z.string(),
  }),
  z.object({ ...said('TmuxServerBusyError', 'EBUSY'), evidence: z.array(z.string()) }),
  z.object({ ...said('OperationInProgressError', 'EINPROGRESS'), operationId: z.string() }),
  z.object({
    ...said('ReauthenticationRequiredError', 'EREAUTH'),
    attemptsLeft: z.int().nullable(),
    retryAt: moment,
  }),
  z.object(said('AuditUnavailableError', 'EAUDIT')),
  z.object({
    ...said('ListingUnknownError', 'ELISTING'),
    reason: z.enum(reasons).nullable(),
    retryAt: moment,
  }),
  z.object(said('IdempotencyConflictError', 'EIDEMPOTENCY')),
  z.object(said('NotFoundError', 'ENOTFOUND')),
  z.object({ ...said('WorkingDirectoryMissingError', 'ENOCWD'), path: z.string() }),
  z.object({ ...said('UnsupportedError', 'EUNSUPPORTED'), tmuxVersion: text }),
  z.object({ ...said('OutcomeUnknownError', 'EUNKNOWN'), auditEventId: text }),
]);

export function freezeError(error: UserErrorValue): Json {
  return Object.fromEntries(
    Object.entries(error).map(([key, value]: [string, Json | Date]) => [
      key,
      value instanceof Date ? value.toISOString() : value,
    ]),
  );
}

/** Undefined where it is none. */
export function thawError(answer: Json | undefined): UserErrorValue | undefined {
  return stored.safeParse(answer).data;
}
