import { and, eq, isNull, lte, or, sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { auditEvents, idempotencyKeys } from '../database/tables.ts';
import type { IdempotencyClaim, Json } from './audit.ts';

/**
 * Claims on idempotency keys: one row for (actor, mutation, key), written with the intent (of an
 * operation on many: with its first row), given its answer with the outcome (at its end), forgotten
 * after 24 h by the claim clock. A claim holds for as long as its row is there.
 */

export type Queries = Pick<NodePgDatabase, 'select' | 'insert' | 'update' | 'delete' | 'execute'>;

export interface StoredClaim {
  readonly inputHash: Buffer;
  readonly intentId: string;
  readonly operationId: string;
  readonly answer: Json | null;
}

const sameKey = (claim: IdempotencyClaim) =>
  and(
    eq(idempotencyKeys.actorId, claim.actorId),
    eq(idempotencyKeys.mutation, claim.mutation),
    eq(idempotencyKeys.key, claim.key),
  );

export async function findClaim(
  queries: Queries,
  claim: IdempotencyClaim,
): Promise<StoredClaim | undefined> {
  const [found] = await queries.select().from(idempotencyKeys).where(sameKey(claim));
  return found && { ...found, answer: jsonOf(found.answer) };
}

export interface ClaimOfAct {
  readonly claim: IdempotencyClaim;
  readonly intentId: string;
  readonly operationId: string;
}

/**
 * Takes the keys, each of them once among the claims, in one statement.
 * @returns those that others hold, with the operation of the holder
 */
export async function insertClaims(
  queries: Queries,
  claims: readonly ClaimOfAct[],
): Promise<readonly { readonly intentId: string; readonly holder: string }[]> {
  if (claims.length === 0) return [];
  const inserted = await queries
    .insert(idempotencyKeys)
    .values(
      claims.map(({ claim, intentId, operationId }) => {
        const { actorId, mutation, key, inputHash } = claim;
        return { actorId, mutation, key, inputHash, intentId, operationId };
      }),
    )
    .onConflictDoNothing()
    .returning({ intentId: idempotencyKeys.intentId });
  const ours = new Set(inserted.map(({ intentId }) => intentId));
  const others = [];
  for (const { claim, intentId } of claims) {
    if (ours.has(intentId)) continue;
    const [held] = await queries
      .select({ intentId: idempotencyKeys.intentId, holder: idempotencyKeys.operationId })
      .from(idempotencyKeys)
      .where(sameKey(claim));
    // It may be ours, by an attempt whose end was not heard.
    if (held && held.intentId !== intentId) others.push({ intentId, holder: held.holder });
  }
  return others;
}

/** By the ids of intents, in one statement; a key that has an answer keeps it. */
export async function storeAnswers(
  queries: Queries,
  answers: ReadonlyMap<string, Json>,
): Promise<void> {
  if (answers.size === 0) return;
  const records = Array.from(answers, ([intent_id, answer]) => ({
    intent_id,
    answer: storableJson(answer),
  }));
  await queries.execute(sql`
    update idempotency_keys set answer = given.answer
      from jsonb_to_recordset(${JSON.stringify(records)}::jsonb) as given (intent_id uuid, answer jsonb)
      where idempotency_keys.intent_id = given.intent_id and idempotency_keys.answer is null`);
}

/** For an intent after which nothing was done: the key is free again. */
export async function releaseClaim(queries: Queries, intentId: string): Promise<void> {
  await queries
    .delete(idempotencyKeys)
    .where(and(eq(idempotencyKeys.intentId, intentId), isNull(idempotencyKeys.answer)));
}

/**
 * Claims of this chain without an answer, with the id of the outcome: of the intent that the claim
 * came with, or the row itself that it came with.
 */
export async function unansweredOutcomes(
  queries: Queries,
  chain: string,
): Promise<readonly (Omit<IdempotencyClaim, 'inputHash'> & { readonly id: string })[]> {
  const { actorId, mutation, key } = idempotencyKeys;
  return await queries
    .select({ id: auditEvents.id, actorId, mutation, key })
    .from(idempotencyKeys)
    .innerJoin(
      auditEvents,
      or(
        eq(auditEvents.intentId, idempotencyKeys.intentId),
        and(eq(auditEvents.id, idempotencyKeys.intentId), eq(auditEvents.phase, 'OUTCOME')),
      ),
    )
    .where(and(isNull(idempotencyKeys.answer), eq(auditEvents.chain, chain)));
}

/** @param countedMs those that were made when the claim clock showed that, or less */
export async function forgetClaims(queries: Queries, countedMs: number): Promise<void> {
  await queries.delete(idempotencyKeys).where(lte(idempotencyKeys.countedMs, countedMs));
}

/** PostgreSQL keeps no NUL and no lone surrogate, and a row that it refuses would block the chain. */
function storableJson(value: Json): Json {
  if (typeof value === 'string') return value.toWellFormed().replaceAll('\0', '\ufffd');
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(storableJson);
  return Object.fromEntries(
    Object.entries(value).map(([key, part]: [string, Json]) => [key, storableJson(part)]),
  );
}

/** What the driver parsed from a `jsonb` column is JSON. */
function jsonOf(value: unknown): Json | null {
  if (value === null || typeof value !== 'object') {
    return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
      ? value
      : null;
  }
  if (Array.isArray(value)) return value.map(jsonOf);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, jsonOf(part)]));
}
