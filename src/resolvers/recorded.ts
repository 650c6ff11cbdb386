import { createHash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import {
  type Answered,
  AuditUnavailableError,
  IdempotencyConflictError,
  type Json,
  StillRunningError,
} from '../audit/audit.ts';
import type { AuditEntry, AuditEvent } from '../audit/record.ts';
import { maySeeListing } from '../auth/authority.ts';
import type { Viewer } from '../auth/viewer.ts';
import { escapeText } from '../escape.ts';
import { NotFoundError, OperationInProgressError, TmuxServerStuckError } from '../tmux/errors.ts';
import type { PreparedAct, ServerState, Survivor } from '../tmux/model.ts';
import type { Context } from './context.ts';
import { badInput, forbidden, RequestError } from './request-error.ts';
import { freezeError, thawError } from './stored-error.ts';
import {
  isNamed,
  type Named,
  type OutcomeUnknownValue,
  type UserErrorValue,
  userErrorOf,
} from './user-error.ts';

/**
 * No record, no act. The order is always: authorise, parse, idempotency, re-authentication, lock
 * and look again (`prepare`), intent on record, act, outcome on record, answer.
 *
 * A refusal before the intent leaves one OUTCOME row: DENIED where authority or the password
 * failed, else FAILED with its code; it is not kept for the key. Where that row can't be written a
 * DENIED call answers AuditUnavailableError, so that nobody tries passwords off the record; any
 * other refusal is answered as it is, since nothing happened, and an alarm says what is missing.
 *
 * What happened after the intent is told as it is: done or failed where that was seen, else
 * UNKNOWN; also an error that nobody expected is UNKNOWN, since something may have been sent.
 */
export interface Act<Result, Name extends UserErrorValue['__typename']> {
  /** The errors that the result's union has. */
  readonly errors: readonly (Name | 'OutcomeUnknownError')[];
  readonly mutation: string;
  readonly action: AuditEntry['action'];
  readonly idempotencyKey: string;
  readonly reason: string | null | undefined;
  readonly target: {
    readonly memberId: string;
    /** The id of the API. */
    readonly id: string;
    /** From the id alone: says nothing that the caller did not. */
    readonly label: string;
    readonly generation: string;
  };
  /** What makes two calls the same, the password left out. */
  readonly input: Json;
  /** For the intent: what reconciliation needs and what a reader would ask. No free text. */
  readonly facts: AuditEntry['facts'];
  /** For the refusal: `restarting this tmux server`. */
  readonly what: string;
  readonly allowed: (viewer: Viewer) => boolean;
  /** @throws RequestError (BAD_USER_INPUT) that names the argument */
  readonly check?: () => void;
  /** @throws ReauthenticationRequiredError */
  readonly reauthenticate?: () => Promise<void>;
  readonly prepare: (operationId: string) => Promise<PreparedAct<Result>>;
  readonly report: (result: Result) => Report;
}

export interface Report {
  readonly outcome: 'SUCCEEDED' | 'FAILED' | 'UNKNOWN';
  readonly message: string | null;
  readonly after: ServerState;
  readonly survivors: readonly Survivor[];
  /** What the payload is made of, also for later calls with the same key. */
  readonly answer: Json;
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
  const operationId = randomUUID();
  const entry = entryOf(context, act, operationId);
  try {
    await authorise(context, act, entry);
    check(act);
    const claim = {
      actorId: context.viewer.member.id,
      mutation: act.mutation,
      key: act.idempotencyKey,
      inputHash: createHash('sha256').update(JSON.stringify(act.input)).digest(),
    };
    const answered = await context.audit
      .once(claim, () => perform(context, act, entry, claim))
      .catch((error: unknown) => refuseKey(context, entry, error));
    return told(answered, act.errors);
  } catch (error) {
    const said = userErrorOf(error);
    if (said === undefined || !isNamed(said, act.errors)) throw error;
    return { kind: 'refused', error: said };
  }
}

async function authorise(
  context: Context,
  { target, allowed, what }: Pick<Act<unknown, never>, 'target' | 'allowed' | 'what'>,
  entry: AuditEntry,
): Promise<void> {
  const { viewer, accounts } = context;
  if (!allowed(viewer))
    throw await refused(
      context,
      entry,
      maySeeListing(viewer, target.memberId) ? forbidden(what) : new NotFoundError(),
    );
  if (accounts.member(target.memberId) === undefined)
    throw await refused(context, { ...entry, outcome: 'FAILED' }, new NotFoundError());
}

function check({
  idempotencyKey,
  reason,
  check: checkInput,
}: Pick<Act<unknown, never>, 'idempotencyKey' | 'reason' | 'check'>): void {
  if (!/^[\x20-\x7e]{1,64}$/.test(idempotencyKey))
    throw badInput('input.idempotencyKey', 'is 1 to 64 printable ASCII characters.');
  if (reason != null && [...reason].length > 500)
    throw badInput('input.reason', 'is 500 characters at most.');
  checkInput?.();
}

async function perform<Result, Name extends UserErrorValue['__typename']>(
  context: Context,
  act: Act<Result, Name>,
  entry: AuditEntry,
  claim: Parameters<Context['audit']['intend']>[1],
): Promise<Answered> {
  try {
    await act.reauthenticate?.();
  } catch (error) {
    throw await refused(context, entry, error);
  }
  let preparing: PreparedAct<Result>;
  try {
    preparing = await act.prepare(entry.operationId);
  } catch (error) {
    throw await refused(context, { ...entry, outcome: 'FAILED' }, error);
  }
  using prepared = preparing;
  const { before, targetLabel } = prepared;
  const begun = await context.audit.intend(
    { ...entry, phase: 'INTENT', outcome: null, facts: act.facts, before, targetLabel },
    claim,
  );
  const { answer, ...end } = await run(prepared, act);
  try {
    const outcome = await context.audit.conclude(
      { ...entry, ...end, intentId: begun.id, before, targetLabel },
      answer,
    );
    return { answer, outcome };
  } catch (error) {
    context.audit.alarm(
      {
        code: 'AUDIT_OUTCOME_MISSING',
        message: `The outcome (${end.outcome}) of operation ${entry.operationId} is not on record: ${messageOf(error)}`,
        remedy:
          'It is written when that is possible; after a stop of the journal the next start says UNKNOWN.',
      },
      'recorded',
    );
    return { answer, outcome: undefined };
  }
}

type End = Pick<AuditEntry, 'outcome' | 'code' | 'message' | 'after' | 'survivors'> & {
  readonly answer: Json;
};

/** Never throws: whatever happened is an outcome. */
async function run<Result, Name extends UserErrorValue['__typename']>(
  prepared: PreparedAct<Result>,
  act: Act<Result, Name>,
): Promise<End> {
  try {
    const { answer, ...report } = act.report(await prepared.run());
    return { ...report, code: null, answer: { done: answer } };
  } catch (error) {
    const typed = userErrorOf(error);
    const said = typed && isNamed(typed, act.errors) ? typed : unexpected;
    const unknown =
      said.code === 'EUNKNOWN' || (error instanceof TmuxServerStuckError && error.mayStillHappen);
    return {
      outcome: unknown ? 'UNKNOWN' : 'FAILED',
      code: said.code,
      message: said === unexpected ? `${said.message} (${messageOf(error)})` : said.message,
      after: stuckState(error),
      survivors: null,
      answer: { error: freezeError(said) },
    };
  }
}

/** Puts the refusal on record; gives the error that the caller is to get. */
async function refused(context: Context, entry: AuditEntry, error: unknown): Promise<unknown> {
  const code = userErrorOf(error)?.code ?? null;
  const denied =
    entry.outcome === 'DENIED' &&
    (code === 'EREAUTH' || code === 'ENOTFOUND' || error instanceof RequestError);
  const row: AuditEntry = {
    ...entry,
    outcome: denied ? 'DENIED' : 'FAILED',
    code,
    message: messageOf(error),
    before: stuckState(error),
  };
  try {
    await context.audit.append(row);
    return error;
  } catch (unwritten) {
    if (denied && unwritten instanceof AuditUnavailableError) return unwritten;
    context.audit.alarm(
      {
        code: 'AUDIT_REFUSAL_MISSING',
        message: `The refusal (${code}) of operation ${entry.operationId} is not on record: ${messageOf(unwritten)}`,
        remedy: 'Nothing was done. See why the audit log could not be written.',
      },
      'recorded',
    );
    return error;
  }
}

/** The key itself stood in the way: each such call is a refusal of its own. */
async function refuseKey(context: Context, entry: AuditEntry, error: unknown): Promise<never> {
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

const unexpected: OutcomeUnknownValue = {
  __typename: 'OutcomeUnknownError',
  code: 'EUNKNOWN',
  message: 'The act was begun, and what came of it is not known. Look before you decide.',
  auditEventId: null,
};

/** As of a refused call; what comes of it is filled in. */
function entryOf(
  context: Context,
  act: Pick<Act<unknown, never>, 'action' | 'target' | 'reason'>,
  operationId: string,
): AuditEntry {
  const { viewer, userAgent, address, requestId } = context;
  return {
    phase: 'OUTCOME',
    outcome: 'DENIED',
    action: act.action,
    actorId: viewer.member.id,
    actorKeyId: viewer.via === 'API_KEY' ? viewer.credentialId : null,
    actorAddress: address,
    actorAgent: userAgent === null ? null : escapeText(userAgent.slice(0, 500)),
    memberId: act.target.memberId,
    targetId: act.target.id,
    targetLabel: act.target.label,
    code: null,
    statedReason: act.reason == null ? null : escapeText(act.reason.slice(0, 2_000)),
    message: null,
    operationId,
    requestId,
    intentId: null,
    before: null,
    after: null,
    survivors: null,
    facts: { expectedGeneration: act.target.generation },
  };
}

function stuckState(error: unknown): ServerState | null {
  if (!(error instanceof TmuxServerStuckError)) return null;
  const { pid, status } = error;
  return { generation: null, pid, version: null, status, sessionCount: null };
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
