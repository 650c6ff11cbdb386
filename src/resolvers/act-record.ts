import { AuditUnavailableError, type Json } from '../audit/audit.ts';
import type { AuditEntry, AuditEvent } from '../audit/record.ts';
import { escapeText } from '../escape.ts';
import { TmuxServerStuckError } from '../tmux/errors.ts';
import type { PreparedAct, ServerState, Survivor } from '../tmux/model.ts';
import type { Context } from './context.ts';
import { RequestError } from './request-error.ts';
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
  readonly after: ServerState;
  readonly survivors: readonly Survivor[];
  /** What the payload is made of, also for later calls with the same key. */
  readonly answer: Json;
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
  prepared: PreparedAct<Result>,
  act: RecordedAct<Result, Name>,
  entry: AuditEntry,
  rows: Rows,
): Promise<{ readonly end: End; readonly outcome: AuditEvent | undefined }> {
  const { before, targetLabel } = prepared;
  const named = { ...entry, before, targetLabel };
  const begun = await rows.intent({ ...named, phase: 'INTENT', outcome: null, facts: act.facts });
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

/** Never throws: whatever happened is an outcome. */
async function run<Result, Name extends UserErrorValue['__typename']>(
  prepared: PreparedAct<Result>,
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
  context: Context,
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

/** Who an act is about and why it is done. */
interface About {
  readonly action: AuditEntry['action'];
  readonly reason: string | null | undefined;
  /** Null: about many. */
  readonly target: {
    readonly memberId: string;
    readonly id: string;
    readonly label: string;
    readonly generation: string;
  } | null;
}

const unexpected: OutcomeUnknownValue = {
  __typename: 'OutcomeUnknownError',
  code: 'EUNKNOWN',
  message: 'The act was begun, and what came of it is not known. Look before you decide.',
  auditEventId: null,
};

/** As of a refused call; what comes of it is filled in. */
export function entryOf(context: Context, act: About, operationId: string): AuditEntry {
  const { viewer, userAgent, address, requestId } = context;
  return {
    phase: 'OUTCOME',
    outcome: 'DENIED',
    action: act.action,
    actorId: viewer.member.id,
    actorKeyId: viewer.via === 'API_KEY' ? viewer.credentialId : null,
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
    facts: act.target && { expectedGeneration: act.target.generation },
  };
}

function stuckState(error: unknown): ServerState | null {
  if (!(error instanceof TmuxServerStuckError)) return null;
  const { pid, status } = error;
  return { generation: null, pid, version: null, status, sessionCount: null };
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
