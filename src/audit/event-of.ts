import { MadeOf } from '../made-of.ts';
import { withoutClaim } from './kept-claim.ts';
import type { AuditEvent } from './record.ts';
import type { SealedRow } from './row.ts';

/** What callers see of a row. */
export function eventOf(row: SealedRow): AuditEvent {
  // Each by its name: of an object whose rest is taken, V8 makes the copy slowly.
  return {
    chain: row.chain,
    sequence: row.sequence,
    id: row.id,
    at: row.at,
    phase: row.phase,
    outcome: row.outcome,
    action: row.action,
    actorId: row.actorId,
    actorKeyId: row.actorKeyId,
    actorAddress: row.actorAddress,
    actorAgent: row.actorAgent,
    memberId: row.memberId,
    targetId: row.targetId,
    targetLabel: row.targetLabel,
    code: row.code,
    statedReason: row.statedReason,
    message: row.message,
    operationId: row.operationId,
    requestId: row.requestId,
    intentId: row.intentId,
    before: row.before,
    after: row.after,
    survivors: row.survivors,
    facts: withoutClaim(row.facts),
    hash: row.hash,
  };
}

const shared = new MadeOf<SealedRow, AuditEvent>();

/** Of the same row the same object, for what is made of it is made once for all who follow. */
export function sharedEventOf(row: SealedRow): AuditEvent {
  const known = shared.get(row);
  if (known !== undefined) return known;
  const event = eventOf(row);
  shared.set(row, event);
  return event;
}
