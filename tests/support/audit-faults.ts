import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { expect } from 'vitest';
import { AuditUnavailableError } from '../../src/audit/audit.ts';
import { readChainKeys } from '../../src/audit/chain-key.ts';
import { journalRows } from '../../src/audit/sources.ts';
import { verify } from '../../src/audit/verify.ts';
import { waitedForCoreMs } from './core-wait.ts';
import type { TestDatabase } from './postgres.ts';

/** What the record refuses while something is at fault, and what is in it afterwards. */

export const claim = () => ({
  actorId: randomUUID(),
  mutation: 'm',
  key: 'k',
  inputHash: Buffer.from('h'),
});

/** Milliseconds until it was refused for want of the record, without those that this process waited for a core. */
export async function took<T>(what: Promise<T>): Promise<number> {
  const began = performance.now();
  const refused = expect(what).rejects.toThrow(AuditUnavailableError);
  const waited = await waitedForCoreMs('self');
  await refused;
  const ms = performance.now() - began;
  return ms - ((await waitedForCoreMs('self')) - waited);
}

/** Phase, outcome and code of each row of the table, in their order. */
export async function stored(test: TestDatabase) {
  const { rows } = await test.database.pool.query<{
    phase: string;
    outcome: string | null;
    code: string | null;
  }>('select phase, outcome, code from audit_events order by sequence');
  return rows.map(({ phase, outcome, code }) => [phase, outcome, code].filter(Boolean).join(' '));
}

/** The journal is one unbroken chain. */
export async function expectWhole(test: TestDatabase, stateDir = test.config.stateDir) {
  const journal = join(stateDir, 'audit/journal.jsonl');
  expect((await verify(journalRows(journal), await readChainKeys(stateDir))).findings).toEqual([]);
}
