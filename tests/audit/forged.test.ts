import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { insertRows, rowsOfChain } from '../../src/audit/audit-table.ts';
import { readChainKeys, readInstanceId } from '../../src/audit/chain-key.ts';
import { readHeads } from '../../src/audit/head.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import type { SealedRow } from '../../src/audit/row.ts';
import { compare, journalRows, verify } from '../../src/audit/verify.ts';
import { entry, keptLog } from '../support/audit.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';

/** A forger who owns database and files, but not the key. */
describe('what a forger changes', () => {
  let test: TestDatabase;
  const count = 20;
  let journal: string;
  let original: string;
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    for (let index = 1; index <= count; index++)
      await audit.append(entry({ message: `row ${index}` }));
    journal = join(test.config.stateDir, 'audit/journal.jsonl');
    original = await readFile(journal, 'utf8');
  });
  afterAll(() => test[Symbol.asyncDispose]());

  const check = async (source: Parameters<typeof verify>[0]) => {
    const keys = await readChainKeys(test.config.stateDir);
    const { heads } = await readHeads(test.config.stateDir, keys);
    const { findings } = await verify(source, keys, heads);
    return findings.map(({ kind, sequence }) => `${kind} ${sequence}`);
  };
  const table = async () => {
    const chain = await readInstanceId(test.config.stateDir);
    return await rowsOfChain(test.database.drizzle, { chain, after: 0 }, 1_000);
  };
  async function* each(rows: readonly SealedRow[]): AsyncGenerator<SealedRow> {
    yield* rows;
  }

  const lines = () => original.split('\n').slice(0, -1);
  const changes: readonly (readonly [string, (lines: string[]) => string[], string])[] = [
    ['changed', (all) => all.with(4, (all[4] ?? '').replace('row 5', 'row X')), 'CHANGED 5'],
    ['deleted', (all) => all.toSpliced(4, 1), 'MISSING 6'],
    [
      'inserted',
      (all) => all.toSpliced(4, 0, (all[4] ?? '').replace('row 5', 'row Y')),
      'CHANGED 5',
    ],
    ['repeated', (all) => all.toSpliced(5, 0, all[4] ?? ''), 'REPEATED 5'],
    ['swapped', (all) => all.with(4, all[5] ?? '').with(5, all[4] ?? ''), 'MISSING 6'],
    ['cut at the front', (all) => all.slice(3), 'MISSING 4'],
    ['cut at the end', (all) => all.slice(0, 10), 'CUT 11'],
    ['emptied', () => [], 'CUT 1'],
    ['damaged', (all) => all.with(4, 'no row'), 'DAMAGED null'],
    [
      'given the number and hash of another',
      (all) => all.with(4, (all[6] ?? '').replace('"sequence":7', '"sequence":5')),
      'CHANGED 5',
    ],
  ];
  it.each(changes)('in the journal is found: %s', async (_, change, first) => {
    await writeFile(
      journal,
      change(lines())
        .map((line) => `${line}\n`)
        .join(''),
    );
    expect((await check(journalRows(journal)))[0]).toBe(first);
    await writeFile(journal, original);
    expect(await check(journalRows(journal))).toEqual([]);
  });

  it.each([
    ["update audit_events set message = 'x' where sequence = 5", 'CHANGED 5'],
    ["update audit_events set at = at + interval '1 s' where sequence = 5", 'CHANGED 5'],
    ['update audit_events set facts = \'{"a": 1}\' where sequence = 5', 'CHANGED 5'],
    ["update audit_events set before = '[1]' where sequence = 5", 'CHANGED 5'],
    ["update audit_events set outcome = 'FAILED' where sequence = 5", 'CHANGED 5'],
    ["update audit_events set hash = '\\x00' where sequence = 5", 'CHANGED 5'],
    ['delete from audit_events where sequence = 5', 'MISSING 6'],
    ['delete from audit_events where sequence > 15', 'CUT 16'],
    ['update audit_events set sequence = 21 where sequence = 5', 'MISSING 6'],
    [
      'update audit_events set sequence = case sequence when 5 then 1006 else 1005 end where sequence in (5, 6)',
      'MISSING 7',
    ],
  ])('in the table is found: %s', async (statement, first) => {
    const before = await table();
    await test.tamper(statement);
    const found = await check(each(await table()));
    expect(found[0]).toBe(first);
    await test.tamper('delete from audit_events');
    await insertRows(test.database.drizzle, before);
    expect(await check(each(await table()))).toEqual([]);
  });

  it('is found when table and journal were each made whole with another text', async () => {
    const rows = await table();
    const other = rows.map((row) => (row.sequence === 5 ? { ...row, hash: 'f'.repeat(64) } : row));
    expect(await compare(each(rows), each(other))).toMatchObject([
      { kind: 'DIFFERENT', sequence: 5 },
    ]);
  });

  it('is an alarm at the next start: a cut of both places, and a table that is ahead', async () => {
    const { stateDir } = test.config;
    await writeFile(
      journal,
      lines()
        .slice(0, 10)
        .map((line) => `${line}\n`)
        .join(''),
    );
    const log = keptLog();
    {
      await using audit = await openAudit(stateDir, test.database, log);
      expect(
        audit
          .problems()
          .map(({ message }) => message)
          .join(),
      ).toMatch(/journal ends before row 20/);
    }
    expect(log.lines.join('\n')).toMatch(/audit alarm/);
    await test.tamper('delete from audit_events where sequence > 10');
    {
      await using audit = await openAudit(stateDir, test.database, keptLog());
      expect(
        audit
          .problems()
          .map(({ message }) => message)
          .join(),
      ).toMatch(/ends at row 10, but had 20 rows/);
      // It goes on, and the evidence stays.
      expect((await audit.append(entry())).sequence).toBe(11);
    }
    expect((await check(journalRows(journal))).join()).toMatch(/CUT|REPLACED/);
  });

  it('stops acts when the end of the journal does not continue the record', async () => {
    await using other = await openTestDatabase('embedded');
    const { stateDir } = other.config;
    {
      await using audit = await openAudit(stateDir, other.database, keptLog());
      for (let index = 0; index < 4; index++) await audit.append(entry());
    }
    const path = join(stateDir, 'audit/journal.jsonl');
    const all = (await readFile(path, 'utf8')).split('\n').slice(0, -1);
    await other.tamper('delete from audit_events where sequence > 2');
    await writeFile(
      path,
      `${all.with(3, (all[3] ?? '').replace('a test', 'forged')).join('\n')}\n`,
    );
    {
      await using audit = await openAudit(stateDir, other.database, keptLog());
      await expect(audit.append(entry())).rejects.toThrow('nothing was done');
      expect(audit.problems().map(({ code }) => code)).toContain('AUDIT_UNAVAILABLE');
    }
    await writeFile(path, `${all.join('\n')}\n`);
    await rm(join(stateDir, 'audit/reserve'));
    await using audit = await openAudit(stateDir, other.database, keptLog());
    expect((await audit.append(entry())).sequence).toBe(5);
    const { rows } = await other.database.pool.query('select count(*)::int as n from audit_events');
    expect(rows).toEqual([{ n: 5 }]);
  });
});
