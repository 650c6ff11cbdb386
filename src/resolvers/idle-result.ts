import { z } from 'zod';
import type { Answered, Json } from '../audit/audit.ts';
import type { AuditEvent } from '../audit/record.ts';
import type { NotRestored, Survivor } from '../tmux/acts.ts';
import type { ServerRef } from '../tmux/model.ts';
import { type AuditEventNode, auditEventNode } from './audit-event.ts';
import type { Context } from './context.ts';
import { decodeId } from './id.ts';
import { type RestartIdleOutcome, restartIdleOutcomes } from './idle-verdict.ts';
import { visibleMember } from './listing.ts';
import type { MemberNode, ServerNode } from './nodes.ts';
import { serverNow } from './server-now.ts';
import { freezeError, thawError } from './stored-error.ts';
import type { UserErrorValue } from './user-error.ts';

/**
 * The answer of a restart of idle servers, as it is kept for its key, and as it is told: the same in
 * the first answer and in each later one, with the servers as they are now. Where the answer was lost
 * with the process that worked on it, it is made again from what is on record.
 */

export interface RestartIdleTmuxServersPayloadValue {
  readonly __typename: 'RestartIdleTmuxServersPayload';
  readonly operationId: string;
  readonly dryRun: boolean;
  readonly results: readonly RestartIdleResultValue[];
  readonly unknownMembers: readonly MemberNode[];
  readonly complete: boolean;
}

export interface RestartIdleResultValue {
  readonly server: ServerNode;
  readonly generation: string | null;
  readonly outcome: RestartIdleOutcome;
  readonly evidence: readonly string[];
  readonly wouldEnd: readonly Survivor[];
  readonly survivors: readonly Survivor[];
  readonly notRestored: readonly NotRestored[];
  readonly error: UserErrorValue | null;
  readonly auditEvent: AuditEventNode | null;
}

/** What is told of one server, but for what is looked up when it is told. */
export type IdleResult = Omit<RestartIdleResultValue, 'server' | 'auditEvent'> & {
  readonly server: ServerRef;
  readonly auditEventId: string | null;
};
export interface IdleAnswer {
  readonly operationId: string;
  readonly results: readonly IdleResult[];
  readonly unknownMemberIds: readonly string[];
  readonly complete: boolean;
}

const survivor = z.object({ pid: z.int(), command: z.string() });
const stored = z.object({
  server: z
    .object({ memberId: z.string(), pathHex: z.string(), generation: z.string().nullable() })
    .transform(({ generation, ...ref }) => (generation === null ? ref : { ...ref, generation })),
  generation: z.string().nullable(),
  outcome: z.enum(restartIdleOutcomes),
  evidence: z.array(z.string()),
  wouldEnd: z.array(survivor),
  survivors: z.array(survivor),
  notRestored: z.array(z.object({ what: z.string(), detail: z.string() })),
  error: z.json().transform((json) => thawError(json) ?? null),
  auditEventId: z.string().nullable(),
});

const storedAnswer = z.object({
  operationId: z.string(),
  results: z.array(stored),
  unknownMemberIds: z.array(z.string()),
  complete: z.boolean(),
});

/** As it is kept. */
export function keptAnswer({ results, ...answer }: IdleAnswer): Json {
  return {
    ...answer,
    results: results.map(({ server, error, ...result }) => ({
      ...result,
      server: { ...server, generation: server.generation ?? null },
      error: error && freezeError(error),
      wouldEnd: result.wouldEnd.map((each) => ({ ...each })),
      survivors: result.survivors.map((each) => ({ ...each })),
      notRestored: result.notRestored.map((each) => ({ ...each })),
    })),
  };
}

export async function toldAnswer(
  context: Context,
  { answer, outcome }: Answered,
): Promise<RestartIdleTmuxServersPayloadValue> {
  const kept = storedAnswer.safeParse(answer).data ?? (await fromRecord(context, outcome));
  return await payloadOf(context, kept, false);
}

export async function payloadOf(
  context: Context,
  { operationId, results, unknownMemberIds, complete }: IdleAnswer,
  dryRun: boolean,
): Promise<RestartIdleTmuxServersPayloadValue> {
  const there = results.filter(({ server }) => context.accounts.member(server.memberId));
  return {
    __typename: 'RestartIdleTmuxServersPayload',
    operationId,
    dryRun,
    results: await Promise.all(there.map((result) => toldResult(context, result))),
    unknownMembers: unknownMemberIds.flatMap((id) => visibleMember(context, id) ?? []),
    complete: complete && there.length === results.length,
  };
}

async function toldResult(
  context: Context,
  { server, error, auditEventId, ...result }: IdleResult,
): Promise<RestartIdleResultValue> {
  const [now, event] = await Promise.all([
    serverNow(context, server),
    auditEventId === null ? undefined : context.audit.event(auditEventId),
  ]);
  return {
    ...result,
    server: now,
    error: error?.__typename === 'OutcomeUnknownError' ? { ...error, auditEventId } : error,
    auditEvent: event === undefined ? null : auditEventNode(event),
  };
}

const pageSize = 100;

/** What is on record of the operation; servers that it had not come to are not in it. */
async function fromRecord(context: Context, outcome: AuditEvent | undefined): Promise<IdleAnswer> {
  if (outcome === undefined) throw new Error('a stored answer is of an unknown shape');
  const { operationId } = outcome;
  const filter = { operationId, phase: 'OUTCOME' as const, visibleTo: null };
  const results: IdleResult[] = [];
  let after: string | undefined;
  do {
    const page = await context.audit.page(filter, pageSize, after);
    results.push(...page.edges.flatMap(({ event }) => resultOnRecord(event) ?? []));
    after = page.hasNextPage ? page.edges.at(-1)?.cursor : undefined;
  } while (after !== undefined);
  return { operationId, results: results.reverse(), unknownMemberIds: [], complete: false };
}

function resultOnRecord(event: AuditEvent): IdleResult | undefined {
  const { id, targetId, facts, before, message, survivors } = event;
  const target = targetId === null ? undefined : decodeId(targetId);
  if (target?.type !== 'TmuxServer') return undefined;
  const { expectedGeneration } = facts ?? {};
  return {
    server: target.ref,
    generation:
      typeof expectedGeneration === 'string' ? expectedGeneration : (before?.generation ?? null),
    outcome: outcomeOnRecord(event),
    evidence: message === null ? [] : [message],
    wouldEnd: [],
    survivors: survivors ?? [],
    notRestored: [],
    error: null,
    auditEventId: id,
  };
}

function outcomeOnRecord({ outcome, code }: AuditEvent): RestartIdleOutcome {
  if (outcome === 'SUCCEEDED') return 'RESTARTED';
  if (code === 'ETMUXSTUCK' && outcome !== 'SKIPPED') return 'STUCK';
  if (outcome === 'UNKNOWN') return 'OUTCOME_UNKNOWN';
  if (code === 'ESTALE') return 'SKIPPED_CHANGED';
  if (outcome !== 'SKIPPED') return 'FAILED';
  if (code === null) return 'SKIPPED_CURRENT';
  return code === 'EBUSY' || code === 'EINPROGRESS' ? 'SKIPPED_BUSY' : 'SKIPPED_UNKNOWN';
}
