import type { Json } from './audit.ts';
import { claimName } from './idempotency.ts';
import {
  type ClaimOfAct,
  insertClaims,
  type Queries,
  releaseClaim,
  storeAnswers,
} from './idempotency-table.ts';
import type { Unsaved } from './note.ts';

/**
 * The claims and answers that come with the rows of a group: in the order of the rows, but in few statements.
 * All claims are taken at once, and after them all answers are given, up to a row that frees a key, or one
 * with a key or an intent that is among them already.
 * @returns for an intent whose key another process had taken: that process's operation id
 */
export async function storeClaims(
  queries: Queries,
  group: readonly Unsaved[],
): Promise<ReadonlyMap<string, string>> {
  const taken = new Map<string, string>();
  const claims = new Map<string, ClaimOfAct>();
  const answers = new Map<string, Json>();
  const flush = async () => {
    for (const { intentId, holder } of await insertClaims(queries, [...claims.values()]))
      taken.set(intentId, holder);
    await storeAnswers(queries, answers);
    claims.clear();
    answers.clear();
  };
  for (const { row, claim, answer } of group) {
    if (claim) {
      const name = claimName(claim);
      if (claims.has(name)) await flush();
      claims.set(name, { claim, intentId: row.id, operationId: row.operationId });
    }
    if (row.intentId === null || answer === undefined) continue;
    if (answer === null || answers.has(row.intentId)) await flush();
    if (answer === null) await releaseClaim(queries, row.intentId);
    else answers.set(row.intentId, answer);
  }
  await flush();
  return taken;
}
