import { createHash, randomUUIDv7 } from 'node:crypto';
import { z } from 'zod';
import {
  type Answered,
  type IdempotencyClaim,
  IdempotencyConflictError,
  type Json,
  StillRunningError,
} from '../audit/audit.ts';
import type { AuditEntry, AuditEvent } from '../audit/record.ts';
import { maySeeListing } from '../auth/authority.ts';
import type { Consent } from '../auth/reauthentication.ts';
import type { Viewer } from '../auth/viewer.ts';
import { NotFoundError, OperationInProgressError } from '../tmux/errors.ts';
import {
  actOnRecord,
  entryOf,
  type Prepared,
  type RecordedAct,
  refused,
  spending,
  type Target,
} from './act-record.ts';
import type { Context } from './context.ts';
import { badInput, forbidden } from './request-error.ts';
import { thawError } from './stored-error.ts';
import { isNamed, type Named, type UserErrorValue, userErrorOf } from './user-error.ts';

/**
 * No record, no act. The order is always: authorise, parse, idempotency, re-authentication, lock
 * and look again (`prepare`), intent on record, act, outcome on record, answer.
 *
 * A refusal before the intent leaves one OUTCOME row: DENIED where authority or the password
 * failed, else FAILED with its code; it is not kept for the key. Where that row can't be written a
 * DENIED call answers AuditUnavailableError, so that nobody tries passwords off the record; any
 * other refusal is answered as it is, since nothing happened, and an alarm says what is missing.
 */
export interface Act<Result, Name extends UserErrorValue['__typename']>
  extends RecordedAct<Result, Name> {
  readonly mutation: string;
  readonly action: AuditEntry['action'];
  /** Null for an act that may come twice without harm: each call is one of its own. */
  readonly idempotencyKey: string | null;
  readonly reason: string | null | undefined;
  readonly target: Target;
  /** Whether the caller may not even know that it is there; else that is asked of its member. */
  readonly hidden?: boolean;
  /** `prepare` looks for the member, so that a repeated call is answered also when it is gone. */
  readonly looksItself?: boolean;
  /** What makes two calls the same; password and grant left out. */
  readonly input: Json;
  /** For the refusal: `restarting this tmux server`. */
  readonly what: string;
  readonly allowed: (viewer: Viewer) => boolean;
  /** @throws RequestError (BAD_USER_INPUT) that names the argument */
  readonly check?: () => void;
  /** @throws ReauthenticationRequiredError */
  readonly reauthenticate?: () => Promise<Consent>;
  readonly prepare: (operationId: string) => Promise<Prepared<Result>>;
}

export type Recorded<Name> =
  | {
      readonly kind: 'done';
      readonly answer: Json;
      /** Null: done, but its outcome is not on record. */
      readonly auditEvent: AuditEvent | null;
    }
  | { readonly kind: 'refused'; readonly error: Named<Name | 'OutcomeUnknownError'> };

/** @throws RequestError (FORBIDDEN, BAD_USER_INPUT), and what nobody expected before the intent */
export async function recorded<Result, Name extends UserErrorValue['__typename']>(
  context: Context,
  act: Act<Result, Name>,
): Promise<Recorded<Name>> {
  const operationId = randomUUIDv7();
  const entry = entryOf(context, act, operationId);
  try {
    await authorise(context, act, entry);
    check(act);
    const { idempotencyKey } = act;
    const answered =
      idempotencyKey === null
        ? await perform(context, act, entry, undefined)
        : await onceForKey(context, { ...act, idempotencyKey }, entry, (claim) =>
            perform(context, act, entry, claim),
          );
    return told(answered, act.errors);
  } catch (error) {
    const said = userErrorOf(error);
    if (said === undefined || !isNamed(said, act.errors)) throw error;
    return { kind: 'refused', error: said };
  }
}

/**
 * Once for the key of this caller and mutation; the answer again for the same input.
 * @throws what the caller gets, once the refusal is on record
 */
export function onceForKey(
  context: Context,
  {
    mutation,
    idempotencyKey: key,
    input,
  }: { readonly mutation: string; readonly idempotencyKey: string; readonly input: Json },
  entry: AuditEntry,
  act: (claim: IdempotencyClaim) => Promise<Answered>,
): Promise<Answered> {
  const inputHash = createHash('sha256').update(JSON.stringify(input)).digest();
  const claim = { actorId: context.viewer.member.id, mutation, key, inputHash };
  return context.audit
    .once(claim, () => act(claim))
    .catch((error: unknown) => refuseKey(context, entry, error));
}

/** @throws what the caller gets, once the refusal is on record */
export async function authorise(
  context: Context,
  {
    target: { memberId },
    allowed,
    what,
    hidden,
    looksItself,
  }: Pick<Act<unknown, never>, 'allowed' | 'what' | 'hidden' | 'looksItself'> & {
    readonly target: Pick<Target, 'memberId'>;
  },
  entry: AuditEntry,
): Promise<void> {
  const { viewer, accounts } = context;
  const isHidden = hidden ?? (memberId !== null && !maySeeListing(viewer, memberId));
  if (!allowed(viewer))
    throw await refused(context, entry, isHidden ? new NotFoundError() : forbidden(what));
  if (looksItself !== true && memberId !== null && accounts.member(memberId) === undefined)
    throw await refused(context, { ...entry, outcome: 'FAILED' }, new NotFoundError());
}

/** @throws RequestError (BAD_USER_INPUT) */
export function check({
  idempotencyKey,
  reason,
  check: checkInput,
}: Pick<Act<unknown, never>, 'idempotencyKey' | 'reason' | 'check'>): void {
  if (idempotencyKey !== null && !/^[\x20-\x7e]{1,64}$/.test(idempotencyKey))
    throw badInput('input.idempotencyKey', 'is 1 to 64 printable ASCII characters.');
  if (reason != null && [...reason].length > 500)
    throw badInput('input.reason', 'is 500 characters at most.');
  checkInput?.();
}

async function perform<Result, Name extends UserErrorValue['__typename']>(
  context: Context,
  act: Act<Result, Name>,
  entry: AuditEntry,
  claim: IdempotencyClaim | undefined,
): Promise<Answered> {
  let consent: Consent | undefined;
  try {
    consent = await act.reauthenticate?.();
  } catch (error) {
    throw await refused(context, entry, error);
  }
  let preparing: Prepared<Result>;
  try {
    preparing = await act.prepare(entry.operationId);
  } catch (error) {
    throw await refused(context, { ...entry, outcome: 'FAILED' }, error);
  }
  using prepared = preparing;
  const { end, outcome } = await actOnRecord(context, prepared, act, entry, {
    intent: spending(context, consent, (intent) => context.audit.intend(intent, claim)),
    outcome: (concluded, answer) => context.audit.conclude(concluded, answer),
  });
  return { answer: end.answer, outcome };
}

/** The key itself stood in the way: each such call is a refusal of its own. */
export async function refuseKey(
  context: Context,
  entry: AuditEntry,
  error: unknown,
): Promise<never> {
  const failed: AuditEntry = { ...entry, outcome: 'FAILED' };
  if (error instanceof IdempotencyConflictError) throw await refused(context, failed, error);
  if (error instanceof StillRunningError)
    throw await refused(context, failed, new OperationInProgressError(error.operationId));
  throw error;
}

/** What the stored answer says; the first call reads it just as every later one. */
function told<Name extends UserErrorValue['__typename']>(
  { answer, outcome }: Answered,
  errors: readonly (Name | 'OutcomeUnknownError')[],
): Recorded<Name> {
  const stored = storedAnswer.parse(answer);
  if ('done' in stored) return { kind: 'done', answer: stored.done, auditEvent: outcome ?? null };
  const error = thawError(stored.error);
  if (error?.__typename === 'OutcomeUnknownError')
    return { kind: 'refused', error: { ...error, auditEventId: outcome?.id ?? null } };
  if (error === undefined || !isNamed(error, errors))
    throw new Error('a stored answer is of an unknown shape');
  return { kind: 'refused', error };
}

const storedAnswer = z.union([z.object({ done: z.json() }), z.object({ error: z.json() })]);
