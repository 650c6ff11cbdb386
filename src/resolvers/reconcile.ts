import type { Audit } from '../audit/audit.ts';
import type { AuditEvent } from '../audit/record.ts';
import { type Clock, sleep, systemClock } from '../concurrency/clock.ts';
import type { Log } from '../database/database.ts';
import type { ServerState } from '../tmux/acts.ts';
import type { Fleet } from '../tmux/fleet.ts';
import { freezeError } from './stored-error.ts';

/**
 * After a start: closes what an earlier process of this instance left open. Each intent without an
 * outcome gets UNKNOWN, with what is seen now beside what was seen before; nothing is done again,
 * and a repeated call with the same key gets that UNKNOWN.
 *
 * @returns how many intents were closed
 */
export async function reconcile(audit: Audit, fleet: Pick<Fleet, 'look'>): Promise<number> {
  await answerLost(audit);
  const intents = await audit.openIntents();
  await Promise.all(intents.map((intent) => close(audit, fleet, intent)));
  return intents.length;
}

/**
 * The same for keys, as long as the service runs: a database that came back without rows gets those
 * from the journal, but that has no answers.
 */
export async function answerRestored(
  audit: Pick<Audit, 'restored' | 'unanswered' | 'answer'>,
  log: Log,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<void> {
  let isFailing = false;
  // Waited for before the look begins: rows that come back within it may not be seen by it.
  let restored = audit.restored.wait(signal);
  while (!signal.aborted) {
    try {
      await answerLost(audit);
      isFailing = false;
      await restored;
      restored = audit.restored.wait(signal);
    } catch (err) {
      if (!isFailing) log.warn({ err }, 'repeated calls could not be given an answer yet');
      isFailing = true;
      await sleep(1_000, clock);
    }
  }
}

/** Outcomes whose answer was lost get one; where nothing was done, the key is free again. */
async function answerLost(audit: Pick<Audit, 'unanswered' | 'answer'>): Promise<void> {
  for (const outcome of await audit.unanswered()) {
    const nothingDone = outcome.code === 'EAUDIT';
    const claimedWith = outcome.intentId ?? outcome.id;
    await audit.answer(claimedWith, nothingDone ? null : unknownAnswer(lostAnswer(outcome)));
  }
}

async function close(audit: Audit, fleet: Pick<Fleet, 'look'>, intent: AuditEvent): Promise<void> {
  const now = await look(fleet, intent);
  const message = `The service ended before the outcome was known, and nothing was done again. ${evidence(intent, now)}`;
  await audit.conclude(
    {
      ...intent,
      phase: 'OUTCOME',
      outcome: 'UNKNOWN',
      code: 'EUNKNOWN',
      message,
      intentId: intent.id,
      after: now instanceof Error ? null : now,
    },
    unknownAnswer(message),
  );
}

async function look(fleet: Pick<Fleet, 'look'>, { memberId, facts }: AuditEvent) {
  const { pathHex, ownGeneration } = facts ?? {};
  if (memberId === null || typeof pathHex !== 'string')
    return new Error('the intent names no tmux server');
  try {
    const life = typeof ownGeneration === 'string' ? { generation: ownGeneration } : {};
    return await fleet.look({ memberId, pathHex, ...life });
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function evidence({ before, facts }: AuditEvent, now: ServerState | Error): string {
  const then = `Before the act: ${said(before)}.${held(facts)}`;
  if (now instanceof Error) return `${then} Now: could not look (${now.message}).`;
  const change =
    now.status === 'UNKNOWN' || before?.generation == null
      ? ''
      : now.generation === before.generation
        ? ' It is the same process: the server was not restarted.'
        : ' It is not the process of before.';
  return `${then} Now: ${said(now)}.${change}`;
}

/** What somebody has to look for now, and to bring back where it is gone. */
function held(facts: AuditEvent['facts']): string {
  const { sessions } = facts ?? {};
  if (typeof sessions !== 'string') return '';
  const list =
    sessions.length <= mostSaid
      ? sessions
      : `${sessions.slice(0, mostSaid)}… (the whole list is in the facts of the intent: muxwarden audit export)`;
  return ` It held: ${list || 'no session'}.`;
}

/** Of the 2,000 characters that a message may have. */
const mostSaid = 1_200;

function said(state: AuditEvent['before']): string {
  if (state === null) return 'not known';
  const { status, pid, generation, sessionCount } = state;
  const sessions = sessionCount === null ? 'unknown' : sessionCount;
  return `${status}, pid ${pid ?? 'unknown'}, generation ${generation ?? 'unknown'}, sessions ${sessions}`;
}

function lostAnswer({ outcome, message }: AuditEvent): string {
  const end = `The act ended and its outcome (${outcome}) is on record, but the full answer was lost with the service or the database.`;
  return message === null ? end : `${end} ${message}`;
}

function unknownAnswer(message: string) {
  return {
    error: freezeError({
      __typename: 'OutcomeUnknownError',
      code: 'EUNKNOWN',
      message,
      auditEventId: null,
    }),
  };
}
