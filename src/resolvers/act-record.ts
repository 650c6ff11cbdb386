import { AuditUnavailableError, type Json } from '../audit/audit.ts';
import type { AuditEntry, AuditEvent } from '../audit/record.ts';
import type { Consent } from '../auth/reauthentication.ts';
import { escapeText } from '../escape.ts';
import type { HeldSession, ServerState, Survivor } from '../tmux/acts.ts';
import { TmuxServerStuckError } from '../tmux/errors.ts';
import type { Context } from './context.ts';
import { RequestError } from './request-error.ts';
import { sessionsText } from './sessions-text.ts';
import { freezeError } from './stored-error.ts';
import {
  isNamed,
  type OutcomeUnknownValue,
  type UserErrorValue,
  userErrorOf,
} from './user-error.ts';

/**
 * One act and its two rows: intent on record, act, outcome on record. Where the intent can't be
 * written nothing is done. What happened after it is told as it is: done or failed where that was
 * seen, else UNKNOWN; also an error that nobody expected is UNKNOWN, since something may have been
 * sent. The row of a refusal is written here too.
 */
export interface RecordedAct<Result, Name extends UserErrorValue['__typename']> {
  /** The errors that the result's union has. */
  readonly errors: readonly (Name | 'OutcomeUnknownError')[];
  /** For the intent: what reconciliation needs and what a reader would ask. No free text. */
  readonly facts: AuditEntry['facts'];
  readonly report: (result: Result) => Report;
}

export interface Report {
  readonly outcome: 'SUCCEEDED' | 'FAILED' | 'UNKNOWN';
  readonly message: string | null;
  readonly after: ServerState | null;
  readonly survivors: readonly Survivor[] | null;
  /** What the payload is made of, also for later calls with the same key. */
  readonly answer: Json;
}

/** Locked and looked at again; a `PreparedAct` of the fleet is one. Disposing gives the lock back. */
export interface Prepared<Result> extends Disposable {
  /** Null where the act is not about a tmux server. */
  readonly before: ServerState | null;
  readonly targetLabel: string;
  readonly holds?: readonly HeldSession[] | null;
  /** What the act is about, where the call could not name it since it is to be made. */
  readonly made?: { readonly memberId: string; readonly id: string };
  run(): Promise<Result>;
}

/** How the rows are written, with what belongs to them. */
export interface Rows {
  readonly intent: (entry: AuditEntry) => Promise<AuditEvent>;
  readonly outcome: (entry: AuditEntry, answer: Json) => Promise<AuditEvent>;
}

export type End = Pick<AuditEntry, 'outcome' | 'code' | 'message' | 'after' | 'survivors'> & {
  readonly answer: Json;
};

/**
 * @returns how it ended; without a row where that could not be written, and an alarm says so
 * @throws what `rows.intent` throws: then nothing was done
 */
export async function actOnRecord<Result, Name extends UserErrorValue['__typename']>(
  context: Context,
  prepared: Prepared<Result>,
  act: RecordedAct<Result, Name>,
  entry: AuditEntry,
  rows: Rows,
): Promise<{ readonly end: End; readonly outcome: AuditEvent | undefined }> {
  const { before, targetLabel, made, holds } = prepared;
  const facts = holds == null ? act.facts : { ...act.facts, sessions: sessionsText(holds) };
  const target = made === undefined ? {} : { memberId: made.memberId, targetId: made.id };
  const named = { ...entry, ...target, before, targetLabel };
  const begun = await rows.intent({ ...named, phase: 'INTENT', outcome: null, facts });
  const end = await run(prepared, act);
  const { answer, ...result } = end;
  try {
    const outcome = await rows.outcome({ ...named, ...result, intentId: begun.id }, answer);
    return { end, outcome };
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
    return { end, outcome: undefined };
  }
}

/**
 * Writes intents, and uses up what the caller has shown with the first of them. Where no intent could
 * be written it is as good as before; should giving back fail too, another password is no harm.
 */
export function spending(
  context: Pick<Context, 'audit'>,
  consent: Consent | undefined,
  intent: Rows['intent'],
): Rows['intent'] {
  if (consent === undefined) return intent;
  let spent: Promise<void> | undefined;
  let writing = 0;
  let written = false;
  return async (entry) => {
    spent ??= consent.spend();
    try {
      await spent;
    } catch (error) {
      throw await refused(context, { ...entry, phase: 'OUTCOME', outcome: 'DENIED' }, error);
    }
    writing += 1;
    try {
      const row = await intent(entry);
      written = true;
      return row;
    } finally {
      writing -= 1;
      if (!written && writing === 0) {
        spent = undefined;
        // A grant that can't be given back is spent: whoever gave it gives another.
        await consent.giveBack().catch(() => undefined);
      }
    }
  };
}

/** Never throws: whatever happened is an outcome. */
async function run<Result, Name extends UserErrorValue['__typename']>(
  prepared: Prepared<Result>,
  act: RecordedAct<Result, Name>,
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
export async function refused(
  context: Pick<Context, 'audit'>,
  entry: AuditEntry,
  error: unknown,
): Promise<unknown> {
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

export interface Target {
  /** Null: about no member, or about one that is only to be. */
  readonly memberId: string | null;
  /** The id of the API. */
  readonly id: string | null;
  /** Says nothing that the caller did not. */
  readonly label: string | null;
  /** Null where it is not about a tmux server. */
  readonly generation: string | null;
}

/** Who an act is about and why it is done. */
interface About {
  readonly action: AuditEntry['action'];
  readonly reason?: string | null | undefined;
  /** Null: about many. */
  readonly target: Target | null;
}

/** From where a call comes, and of whom; null: nobody is signed in. */
export type Caller = Pick<Context, 'userAgent' | 'address' | 'requestId'> & {
  readonly viewer: Context['viewer'] | null;
};

const unexpected: OutcomeUnknownValue = {
  __typename: 'OutcomeUnknownError',
  code: 'EUNKNOWN',
  message: 'The act was begun, and what came of it is not known. Look before you decide.',
  auditEventId: null,
};

/** As of a refused call; what comes of it is filled in. */
export function entryOf(caller: Caller, act: About, operationId: string): AuditEntry {
  const { viewer, userAgent, address, requestId } = caller;
  const generation = act.target?.generation ?? null;
  return {
    phase: 'OUTCOME',
    outcome: 'DENIED',
    action: act.action,
    actorId: viewer?.member.id ?? null,
    actorKeyId: viewer?.via === 'API_KEY' ? viewer.credentialId : null,
    actorAddress: address,
    actorAgent: userAgent === null ? null : escapeText(userAgent.slice(0, 500)),
    memberId: act.target?.memberId ?? null,
    targetId: act.target?.id ?? null,
    targetLabel: act.target?.label ?? null,
    code: null,
    statedReason: act.reason == null ? null : escapeText(act.reason.slice(0, 2_000)),
    message: null,
    operationId,
    requestId,
    intentId: null,
    before: null,
    after: null,
    survivors: null,
    facts: generation === null ? null : { expectedGeneration: generation },
  };
}

function stuckState(error: unknown): ServerState | null {
  if (!(error instanceof TmuxServerStuckError)) return null;
  const { pid, status } = error;
  return { generation: null, pid, version: null, status, sessionCount: null };
}

/** Of a failed query only what the database said: the rest holds what was to be stored. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'query' in error && error.cause instanceof Error ? error.cause.message : error.message;
}
