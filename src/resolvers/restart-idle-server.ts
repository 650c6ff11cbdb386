import { z } from 'zod';
import type { AuditEntry } from '../audit/record.ts';
import type { RestartServerRequest } from '../tmux/acts.ts';
import type { ServerRef, ServerView } from '../tmux/model.ts';
import { stateOf } from '../tmux/restart/server-state.ts';
import { actOnRecord, type End, entryOf, type Rows } from './act-record.ts';
import type { Context } from './context.ts';
import type { OperationRows } from './idle-operation.ts';
import type { IdleResult } from './idle-result.ts';
import type { RestartIdleOutcome, Verdict } from './idle-verdict.ts';
import { restartAnswer, restartReport, restartServerErrors } from './restart-server.ts';
import { aboutServer } from './server-act.ts';
import { thawError } from './stored-error.ts';
import { type UserErrorValue, userErrorOf } from './user-error.ts';

/** A server that somebody named, or that was found, and what its listing says of it. */
export interface Candidate {
  readonly server: ServerRef;
  readonly generation: string | null;
  readonly view: ServerView | undefined;
  readonly verdict: Verdict;
}

export interface IdleOperation {
  readonly operationId: string;
  readonly reason: string | null | undefined;
  readonly restore: RestartServerRequest['restore'];
  readonly rows: OperationRows;
  readonly intent: Rows['intent'];
  /** Why no further server is begun; undefined while it goes on. */
  readonly over: () => string | undefined;
}

/**
 * One server of the operation: restarted if it is idle when its lock is held, else skipped, and on
 * record in any case. What happens to one stops no other.
 * @throws only where the first row of all could not be written: then nothing is done to any
 */
export async function restartIdleServer(
  context: Context,
  operation: IdleOperation,
  candidate: Candidate,
): Promise<IdleResult> {
  const { server, verdict } = candidate;
  const generation = candidate.generation ?? '';
  const options = { onlyIfIdle: true, restore: operation.restore, bulk: true };
  const { target, facts } = aboutServer(server, generation, options);
  const about = { action: 'RESTART_TMUX_SERVER' as const, reason: operation.reason, target };
  const entry: AuditEntry = {
    ...entryOf(context, about, operation.operationId),
    before: candidate.view === undefined ? null : stateOf(candidate.view),
  };
  const skip = (why: Verdict, error?: UserErrorValue) =>
    skipped(operation, candidate, entry, why, error);
  if (verdict.outcome !== 'RESTARTED') return await skip(verdict);
  const over = operation.over();
  if (over !== undefined) return await skip({ outcome: 'SKIPPED_UNKNOWN', evidence: [over] });
  let wouldEnd: IdleResult['wouldEnd'] = [];
  let restarting: Awaited<ReturnType<Context['fleet']['prepareRestartServer']>>;
  try {
    wouldEnd = await context.fleet.wouldEnd(server, generation);
    restarting = await context.fleet.prepareRestartServer({
      ...{ server, expectedGeneration: generation, operationId: operation.operationId },
      ...{ onlyIfIdle: true, continueStopped: false, force: false, restoreCommands: [] },
      restore: operation.restore,
    });
  } catch (error) {
    const said = userErrorOf(error);
    if (said === undefined) return await skip(failed(error));
    return await skip(verdictOnRefusal(context, server, said), said);
  }
  try {
    using prepared = restarting;
    const { end, outcome } = await actOnRecord(
      context,
      prepared,
      { errors: restartServerErrors, facts, report: restartReport },
      entry,
      {
        intent: operation.intent,
        outcome: (concluded) => operation.rows.append(concluded),
      },
    );
    return {
      ...resultOf(candidate, wouldEnd),
      ...ended(end, verdict),
      auditEventId: outcome?.id ?? null,
    };
  } catch (error) {
    // Its intent could not be written, so nothing was done.
    const said = userErrorOf(error);
    return {
      ...resultOf(candidate, wouldEnd),
      ...failed(error),
      error: said ?? null,
    };
  }
}

function resultOf(
  { server, generation }: Candidate,
  wouldEnd: IdleResult['wouldEnd'],
): Omit<IdleResult, 'outcome' | 'evidence'> {
  return {
    server,
    generation,
    wouldEnd,
    survivors: [],
    notRestored: [],
    error: null,
    auditEventId: null,
  };
}

const codes: Partial<Record<RestartIdleOutcome, AuditEntry['code']>> = {
  SKIPPED_BUSY: 'EBUSY',
  SKIPPED_CHANGED: 'ESTALE',
  SKIPPED_UNKNOWN: 'ELISTING',
};

async function skipped(
  { rows }: IdleOperation,
  candidate: Candidate,
  entry: AuditEntry,
  { outcome, evidence }: Verdict,
  error: UserErrorValue | undefined,
): Promise<IdleResult> {
  const row = await rows.skip({
    ...entry,
    outcome: outcome === 'FAILED' ? 'FAILED' : 'SKIPPED',
    code: error?.code ?? codes[outcome] ?? null,
    message: evidence.join('; ') || null,
  });
  return {
    ...resultOf(candidate, []),
    ...{ outcome, evidence },
    error: error ?? null,
    auditEventId: row?.id ?? null,
  };
}

/** It was refused when it was looked at again, before anything was sent. */
function verdictOnRefusal(context: Context, server: ServerRef, said: UserErrorValue): Verdict {
  switch (said.__typename) {
    case 'StaleGenerationError':
    case 'NotFoundError':
      return { outcome: 'SKIPPED_CHANGED', evidence: ['another life of it runs by now, or none'] };
    case 'TmuxServerBusyError':
      return {
        outcome: idleNow(context, server) === null ? 'SKIPPED_UNKNOWN' : 'SKIPPED_BUSY',
        evidence: said.evidence,
      };
    case 'OperationInProgressError':
      return { outcome: 'SKIPPED_BUSY', evidence: [`operation ${said.operationId} is under way`] };
    case 'ListingUnknownError':
    case 'TmuxServerStuckError':
      return { outcome: 'SKIPPED_UNKNOWN', evidence: [said.message] };
    default:
      return { outcome: 'FAILED', evidence: [said.message] };
  }
}

/** As it was seen inside the lock, a moment ago. */
function idleNow({ fleet }: Context, { memberId, pathHex, generation }: ServerRef) {
  const view = fleet
    .peek(memberId)
    ?.servers?.find(({ ref }) => ref.pathHex === pathHex && ref.generation === generation);
  return view?.idle ?? null;
}

function ended(
  { outcome, message, code, answer }: End,
  { evidence }: Verdict,
): Pick<IdleResult, 'outcome' | 'evidence' | 'survivors' | 'notRestored' | 'error'> {
  const { done, error } = endAnswer.parse(answer);
  const { survivors, notRestored } =
    done === undefined ? { survivors: [], notRestored: [] } : restartAnswer.parse(done);
  const said = message === null ? [] : [message];
  return {
    outcome: outcomeOf(outcome, code),
    evidence: [...evidence, ...said],
    survivors,
    notRestored,
    error: thawError(error) ?? null,
  };
}

const endAnswer = z.object({ done: z.json().optional(), error: z.json().optional() });

function outcomeOf(outcome: End['outcome'], code: End['code']): RestartIdleOutcome {
  if (outcome === 'SUCCEEDED') return 'RESTARTED';
  if (code === 'ETMUXSTUCK') return 'STUCK';
  if (outcome === 'UNKNOWN') return 'OUTCOME_UNKNOWN';
  return code === 'ESTALE' ? 'SKIPPED_CHANGED' : 'FAILED';
}

function failed(error: unknown): { readonly outcome: 'FAILED'; readonly evidence: string[] } {
  return { outcome: 'FAILED', evidence: [error instanceof Error ? error.message : String(error)] };
}
