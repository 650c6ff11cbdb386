import { randomUUIDv7 } from 'node:crypto';
import type { Answered, IdempotencyClaim } from '../audit/audit.ts';
import type { AuditEntry } from '../audit/record.ts';
import { mayActOnServer } from '../auth/authority.ts';
import type { Consent } from '../auth/reauthentication.ts';
import { sideBySide } from '../concurrency/side-by-side.ts';
import type { RestartServerRequest } from '../tmux/acts.ts';
import type { MemberListing, ServerRef } from '../tmux/model.ts';
import { entryOf, refused, spending } from './act-record.ts';
import type { Context } from './context.ts';
import { encodeId } from './id.ts';
import { OperationRows } from './idle-operation.ts';
import {
  type IdleAnswer,
  keptAnswer,
  payloadOf,
  type RestartIdleTmuxServersPayloadValue,
  toldAnswer,
} from './idle-result.ts';
import { verdictOn } from './idle-verdict.ts';
import { authorise, check, onceForKey } from './recorded.ts';
import { badInput, forbidden } from './request-error.ts';
import { type Candidate, restartIdleServer } from './restart-idle-server.ts';
import { checkGeneration } from './server-act.ts';
import { type Named, orUserError } from './user-error.ts';

/**
 * Every outdated server that is proved idle restarted, or those of them that are named.
 *
 * A dry run looks and tells what would become of each; it needs no password, claims no key and leaves
 * no row, for it changes nothing. The real run looks at each server again inside its lock. One row says
 * of a server that it was skipped, or two that it was restarted, all of one operation; what happens to
 * one stops no other. A caller who hangs up stops nothing either: the same key gives the answer.
 */
export interface RestartIdleTmuxServers {
  readonly idempotencyKey: string;
  readonly dryRun: boolean;
  readonly targets: readonly Target[] | undefined;
  readonly reason: string | null | undefined;
  readonly password: string | null | undefined;
  readonly grant: string | null | undefined;
  readonly restore: RestartServerRequest['restore'];
}
interface Target {
  readonly server: ServerRef;
  readonly expectedGeneration: string;
}

/** The errors of the result's union. */
export const restartIdleErrors = [
  'OperationInProgressError',
  'ReauthenticationRequiredError',
  'AuditUnavailableError',
  'IdempotencyConflictError',
  'NotFoundError',
] as const;

/** Servers that are restarted at the same time. */
const most = 4;
/** After that no further one is begun. */
const beginMs = 120_000;
/** As many as a grant may be for. */
const mostTargets = 100;

/** @throws RequestError (FORBIDDEN, BAD_USER_INPUT) */
export async function restartIdleTmuxServers(
  context: Context,
  input: RestartIdleTmuxServers,
): Promise<RestartIdleTmuxServersPayloadValue | Named<(typeof restartIdleErrors)[number]>> {
  return await orUserError(restartIdleErrors, async () => {
    const operationId = randomUUIDv7();
    const entry = entryOf(
      context,
      { action: 'RESTART_TMUX_SERVER', reason: input.reason, target: null },
      operationId,
    );
    await authoriseAll(context, input, entry);
    check({ ...input, check: () => checkTargets(input) });
    if (input.dryRun) return await dryRun(context, input, operationId);
    const act = {
      mutation: 'restartIdleTmuxServers',
      idempotencyKey: input.idempotencyKey,
      input: inputOf(input),
    };
    const answered = await onceForKey(context, act, entry, (claim) =>
      restartThem(context, input, entry, claim),
    );
    return await toldAnswer(context, answered);
  });
}

const what = 'restarting idle tmux servers';

async function authoriseAll(
  context: Context,
  { targets }: RestartIdleTmuxServers,
  entry: AuditEntry,
): Promise<void> {
  const { viewer } = context;
  if (targets === undefined && !viewer.scopes.has('RESTART'))
    throw await refused(context, entry, forbidden(what));
  for (const { server } of targets ?? []) {
    const { memberId } = server;
    const id = encodeId({ type: 'TmuxServer', ref: server });
    await authorise(
      context,
      { target: { memberId }, what, allowed: (who) => mayActOnServer(who, memberId) },
      { ...entry, memberId, targetId: id },
    );
  }
}

function checkTargets({ targets = [] }: RestartIdleTmuxServers): void {
  if (targets.length > mostTargets)
    throw badInput('input.targets', `names ${mostTargets} servers at most.`);
  const seen = new Set<string>();
  for (const [index, { server, expectedGeneration }] of targets.entries()) {
    const argument = `input.targets[${index}]`;
    checkGeneration(`${argument}.expectedGeneration`, expectedGeneration);
    const id = encodeId({ type: 'TmuxServer', ref: server });
    if (seen.has(id)) throw badInput(`${argument}.tmuxServerId`, 'was named before.');
    seen.add(id);
  }
}

function inputOf({ targets, reason, restore }: RestartIdleTmuxServers) {
  const named = targets?.map(({ server, expectedGeneration }) => [
    encodeId({ type: 'TmuxServer', ref: server }),
    expectedGeneration,
  ]);
  return { targets: named ?? null, reason: reason ?? null, restore };
}

async function dryRun(
  context: Context,
  input: RestartIdleTmuxServers,
  operationId: string,
): Promise<RestartIdleTmuxServersPayloadValue> {
  const found = await lookAtAll(context, input);
  const results = await sideBySide(found.candidates, most, async (candidate) => {
    const { server, generation, verdict } = candidate;
    const nothing = { survivors: [], notRestored: [], error: null, auditEventId: null };
    const told = { server, generation, ...nothing };
    if (verdict.outcome !== 'RESTARTED' || generation === null)
      return { ...told, ...verdict, wouldEnd: [] };
    try {
      const wouldEnd = await context.fleet.wouldEnd(server, generation);
      return { ...told, ...verdict, wouldEnd };
    } catch (error) {
      const evidence = [error instanceof Error ? error.message : String(error)];
      return { ...told, outcome: 'SKIPPED_UNKNOWN' as const, evidence, wouldEnd: [] };
    }
  });
  return await payloadOf(context, { ...found.unknown, operationId, results }, true);
}

async function restartThem(
  context: Context,
  input: RestartIdleTmuxServers,
  entry: AuditEntry,
  claim: IdempotencyClaim,
): Promise<Answered> {
  const { reauthentication, viewer, address } = context;
  const action = 'RESTART_TMUX_SERVER' as const;
  const targets = (input.targets ?? []).map(({ server, expectedGeneration: generation }) => ({
    id: encodeId({ type: 'TmuxServer', ref: server }),
    generation,
  }));
  let consent: Consent;
  try {
    const act = { action, targets, memberId: null };
    consent = await reauthentication.require(viewer, input, address, act);
  } catch (error) {
    throw await refused(context, entry, error);
  }
  const { candidates, unknown } = await lookAtAll(context, input);
  const { operationId } = entry;
  const until = performance.now() + beginMs;
  const rows = new OperationRows(context.audit, claim);
  const operation = {
    ...{ operationId, reason: input.reason, restore: input.restore, rows },
    intent: spending(context, consent, (intent) => rows.intend(intent)),
    over: () =>
      context.draining?.aborted
        ? 'it was not begun, for the service is stopping'
        : performance.now() > until
          ? `it was not begun within ${beginMs / 1_000} s; ask again, with another key`
          : undefined,
  };
  const results = await sideBySide(candidates, most, (candidate) =>
    restartIdleServer(context, operation, candidate),
  );
  const answer = keptAnswer({ ...unknown, operationId, results });
  await rows.keep(answer);
  return { answer, outcome: undefined };
}

interface Found {
  readonly candidates: readonly Candidate[];
  readonly unknown: Pick<IdleAnswer, 'unknownMemberIds' | 'complete'>;
}

/** Asks each member now, side by side. */
async function lookAtAll(context: Context, { targets }: RestartIdleTmuxServers): Promise<Found> {
  const { accounts, fleet, viewer } = context;
  const memberIds =
    targets === undefined
      ? accounts
          .members()
          .filter(({ id }) => mayActOnServer(viewer, id))
          .sort((one, other) => (one.login < other.login ? -1 : 1))
          .map(({ id }) => id)
      : [...new Set(targets.map(({ server }) => server.memberId))];
  const looked = await Promise.all(
    memberIds.map(async (id) => [id, await fleet.refresh(id)] as const),
  );
  const listings = new Map(looked);
  const unknownMemberIds = memberIds.filter((id) => listings.get(id)?.servers === null);
  const unknown = { unknownMemberIds, complete: unknownMemberIds.length === 0 };
  if (targets !== undefined) {
    const candidates = targets.map((target) =>
      candidateOf(context, listings.get(target.server.memberId), target),
    );
    return { candidates, unknown };
  }
  const candidates = looked.flatMap(([, listing]) =>
    (listing?.servers ?? [])
      .filter(({ status }) => status !== 'ABSENT')
      .map((view) => ({
        server: view.ref,
        generation: view.generation,
        view,
        verdict: verdictOn(view, undefined, context.config.idleAfterMs),
      })),
  );
  return { candidates, unknown };
}

function candidateOf(
  { config }: Context,
  listing: MemberListing | undefined,
  { server, expectedGeneration }: Target,
): Candidate {
  const view = listing?.servers?.find(
    ({ ref }) => ref.pathHex === server.pathHex && ref.generation === server.generation,
  );
  const verdict =
    listing === undefined || listing.servers === null
      ? {
          outcome: 'SKIPPED_UNKNOWN' as const,
          evidence: [
            `its listing is not known: ${listing?.status.detail ?? listing?.status.reason ?? 'nobody has looked'}`,
          ],
        }
      : verdictOn(view, expectedGeneration, config.idleAfterMs);
  return { server, generation: expectedGeneration, view, verdict };
}
