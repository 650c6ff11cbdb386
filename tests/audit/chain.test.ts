import { randomUUID } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lastRow, rowsOfChain } from '../../src/audit/audit-table.ts';
import { readChainKeys, readInstanceId } from '../../src/audit/chain-key.ts';
import { readHeads } from '../../src/audit/head.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import type { AuditEvent } from '../../src/audit/record.ts';
import type { SealedRow } from '../../src/audit/row.ts';
import { journalRows, rowsAmong } from '../../src/audit/sources.ts';
import { compare, type Source, verify } from '../../src/audit/verify.ts';
import { entry, intent, keptLog } from '../support/audit.ts';
import { databaseKinds, openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { rounds } from '../support/tier.ts';

async function* each(rows: readonly SealedRow[]): AsyncGenerator<SealedRow> {
  yield* rows;
}
const whole = (rows: readonly SealedRow[]): Source => each(rows);

describe.each(databaseKinds)('the chain on the %s database', (kind) => {
  let test: TestDatabase;
  beforeAll(async () => {
    test = await openTestDatabase(kind);
  });
  afterAll(() => test[Symbol.asyncDispose]());

  it('numbers parallel rows without a gap, seals them, and puts the same into both places', async () => {
    const { stateDir } = test.config;
    const log = keptLog();
    const count = rounds(300, 5_000);
    {
      await using audit = await openAudit(stateDir, test.database, log);
      const events: AuditEvent[] = [];
      const append = (index: number) =>
        audit.append(
          entry({
            message: `row ${index} with 世🙂 and \u0000 and \ud800`,
            before: {
              generation: 'g',
              pid: index,
              version: '3.3a',
              status: 'RUNNING',
              sessionCount: 2,
            },
            survivors: [{ pid: 1, command: 'a "quoted" \\ one' }],
            facts: { zebra: -0, apple: true, pathHex: '2f', nothing: null },
          }),
        );
      // No more may wait at a time.
      for (let from = 0; from < count; from += 1_000) {
        const part = Array.from({ length: Math.min(1_000, count - from) }, (_, at) => from + at);
        events.push(...(await Promise.all(part.map(append))));
      }
      expect(events.map(({ sequence }) => sequence).sort((a, b) => a - b)).toEqual(
        Array.from({ length: count }, (_, index) => index + 1),
      );
      expect(await audit.event(events[7]?.id ?? '')).toEqual(events[7]);
      expect(audit.problems()).toEqual([]);
    }
    const keys = await readChainKeys(stateDir);
    const chain = await readInstanceId(stateDir);
    const { heads, damaged } = await readHeads(stateDir, keys);
    expect([heads.at(-1)?.sequence, damaged]).toEqual([count, []]);
    const journal = join(stateDir, 'audit/journal.jsonl');
    const stored = await rowsOfChain(test.database.drizzle, { chain, after: 0 }, count + 1);
    expect(await verify(journalRows(journal), keys, heads)).toEqual({ rows: count, findings: [] });
    expect(await verify(whole(stored), keys, heads)).toEqual({ rows: count, findings: [] });
    const rows: SealedRow[] = [];
    for await (const row of rowsAmong(journalRows(journal))) rows.push(row);
    expect(await compare(each(rows), each(stored))).toEqual([]);
    expect(rows).toEqual(stored);
    for (const path of [journal, join(stateDir, 'audit.key'), join(stateDir, 'instance-id')])
      expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it('goes on with the same chain after a restart, and keeps the key out of the database', async () => {
    const { stateDir } = test.config;
    const chain = await readInstanceId(stateDir);
    const before = await lastRow(test.database.drizzle, chain);
    {
      await using audit = await openAudit(stateDir, test.database, keptLog());
      const event = await audit.append(entry());
      expect([event.chain, event.sequence]).toEqual([chain, (before?.sequence ?? 0) + 1]);
    }
    const secret = (await readFile(join(stateDir, 'audit.key'), 'utf8')).split(' ')[1]?.trim();
    const { rows } = await test.database.pool.query<{ text: string }>(
      'select string_agg(audit_events::text, chr(10)) as text from audit_events',
    );
    expect(rows[0]?.text).toContain(chain);
    expect(rows[0]?.text).not.toContain(secret);
  });

  it('refuses UPDATE and DELETE in the table', async () => {
    for (const statement of [
      `update audit_events set message = 'x'`,
      'delete from audit_events',
      'truncate audit_events',
    ])
      await expect(test.database.pool.query(statement)).rejects.toThrow(
        /append-only|permission denied/,
      );
  });

  it('writes in groups: many rows at once take few transactions', async () => {
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    const commits = async () =>
      Number(
        (await test.database.pool.query('select count(distinct xmin::text) as n from audit_events'))
          .rows[0]?.n,
      );
    const before = await commits();
    await Promise.all(Array.from({ length: 400 }, () => audit.append(entry())));
    expect((await commits()) - before).toBeLessThan(40);
  });

  it('stores the claim with the intent, the answer with the outcome', async () => {
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    const actorId = randomUUID();
    const claim = { actorId, mutation: 'm', key: 'k', inputHash: Buffer.from('hash') };
    const begun = await audit.intend(intent({ actorId }), claim);
    const stored = async () =>
      (
        await test.database.pool.query(
          'select intent_id, answer, operation_id from idempotency_keys where actor_id = $1',
          [actorId],
        )
      ).rows;
    expect(await stored()).toEqual([
      { intent_id: begun.id, answer: null, operation_id: begun.operationId },
    ]);
    expect((await audit.openIntents()).map(({ id }) => id)).toContain(begun.id);
    await audit.conclude(entry({ actorId, intentId: begun.id }), { done: [1, 'two', null] });
    expect((await stored())[0]?.answer).toEqual({ done: [1, 'two', null] });
    expect(await audit.openIntents()).toEqual([]);
  });

  it('tells programming errors at once and stores nothing that the table would refuse', async () => {
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    await expect(audit.append(entry({ actorId: 'nobody' }))).rejects.toThrow(TypeError);
    await expect(audit.append(entry({ phase: 'INTENT' }))).rejects.toThrow(TypeError);
    await expect(audit.append(entry({ facts: { 'no name': 1 } }))).rejects.toThrow(TypeError);
    await expect(audit.append(entry({ facts: { half: 0.5 } }))).rejects.toThrow(TypeError);
    expect((await audit.append(entry())).sequence).toBeGreaterThan(0);
  });
});
