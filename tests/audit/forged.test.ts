import { randomUUID } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { insertRows } from '../../src/audit/audit-table.ts';
import { type ChainKeys, genesis, parseChainKeys, seal } from '../../src/audit/chain-key.ts';
import { headLine } from '../../src/audit/head.ts';
import { type ChainFiles, chainFiles, inspect, writeExport } from '../../src/audit/inspection.ts';
import { parseJournalLine } from '../../src/audit/journal-line.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import { journalLine, type SealedRow } from '../../src/audit/row.ts';
import { tableRows } from '../../src/audit/sources.ts';
import { compare, type Finding, verify } from '../../src/audit/verify.ts';
import { entry, keptLog } from '../support/audit.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { firstBadRow } from '../support/second-verifier.ts';

/**
 * A forger who owns database and files, but not the key. Each forged log is refused by both
 * verifiers, for its own reason, and both name the first bad row.
 */

const count = 20;
const of = ({ kind, sequence }: Finding) => `${kind} ${sequence}`;
const text = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join('');
const fill = (index: number) =>
  entry({
    message: `row ${index}: räksmörgås 世 🙂 / \ufffd`,
    targetLabel: 'alice: "default"',
    before: { generation: 'g', pid: 7, version: '3.3a', status: 'RUNNING', sessionCount: 2 },
    facts: { apple: 1, zebra: true },
  });

describe('a forged log', () => {
  let test: TestDatabase;
  let files: ChainFiles;
  let keyFile: string;
  let original: string;
  let headFile: string;
  const headPath = () => join(test.config.stateDir, 'audit/head.json');
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
    {
      await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
      for (let index = 1; index <= count; index++) await audit.append(fill(index));
    }
    files = (await chainFiles(test.config.stateDir))[0] ?? expect.fail();
    keyFile = await readFile(join(test.config.stateDir, 'audit.key'), 'utf8');
    original = await readFile(files.journal, 'utf8');
    headFile = await readFile(headPath(), 'utf8');
  });
  afterAll(() => test[Symbol.asyncDispose]());

  const lines = () => original.split('\n').slice(0, -1);
  const rows = () => lines().map((line) => parseJournalLine(line) ?? expect.fail(line));
  const noted = () => [{ ...(JSON.parse(headFile) as { sequence: number; hash: string }) }];
  const ours = async (withTable = false) => {
    const queries = withTable ? test.database.drizzle : undefined;
    const places = await inspect(files, queries);
    return places.map(({ findings }) => findings.map(of));
  };
  const second = (forged: Buffer, heads = noted()) =>
    firstBadRow(forged, keyFile, files.chain, heads);
  /** The rows from that one on, sealed again one after the other, as who has that key would do. */
  const resealed = (keys: ChainKeys, from: number, change: Partial<SealedRow> = {}) => {
    const all = rows();
    let previous = all[from - 2]?.hash ?? genesis;
    return all.map((row, index) => {
      if (index + 1 < from) return journalLine(row);
      const made = seal(keys, { ...row, ...change, keyId: keys.current, previous });
      previous = made.hash;
      return journalLine(made);
    });
  };

  /** On row 5, or on all lines: what the forger does, what we say, what the second verifier says. */
  type Forged = readonly [string, (all: string[]) => string[] | Buffer, string, string];
  const five =
    (from: string | RegExp, to: string) =>
    (all: string[]): string[] => {
      const line = (all[4] ?? '').replace(from, to);
      expect(line).not.toBe(all[4]);
      return all.with(4, line);
    };
  const forgeries: readonly Forged[] = [
    ['a text changed', five('row 5', 'row X'), 'CHANGED 5', '5 changed'],
    ['an outcome changed', five('"SUCCEEDED"', '"FAILED"'), 'CHANGED 5', '5 changed'],
    ['a time moved', five(/"at":"20../, '"at":"2019'), 'CHANGED 5', '5 changed'],
    ['a number changed', five('"pid":7', '"pid":8'), 'CHANGED 5', '5 changed'],
    ['a fact changed', five('"zebra":true', '"zebra":false'), 'CHANGED 5', '5 changed'],
    ['a null filled in', five('"code":null', '"code":"ESTALE"'), 'CHANGED 5', '5 changed'],
    ['the hash changed', five(/"hash":".{4}/, '"hash":"0000'), 'CHANGED 5', '5 changed'],
    [
      'another row before it',
      five(/"previous":".{64}/, `"previous":"${genesis}`),
      'CHANGED 5',
      '5 changed',
    ],
    ['a composed letter taken apart', five('räk', 'ra\u0308k'), 'CHANGED 5', '5 changed'],
    ['a field left out', five('"code":null,', ''), 'DAMAGED 5', '5 changed'],
    ['a field added', five('"code":null,', '"code":null,"more":1,'), 'DAMAGED 5', '5 changed'],
    [
      'a hash in capitals',
      five(/"hash":"(.*)"\}$/, '"hash":"ABCDEF"}'),
      'DAMAGED 5',
      '5 unreadable',
    ],
    ['a letter as an escape', five('row 5', '\\u0072ow 5'), 'REWRITTEN 5', '5 changed'],
    ['a surrogate pair as escapes', five('🙂', '\\ud83d\\ude42'), 'REWRITTEN 5', '5 changed'],
    ['a slash as an escape', five(' / ', ' \\/ '), 'REWRITTEN 5', '5 changed'],
    ['a number as a decimal', five('"pid":7', '"pid":7.0'), 'REWRITTEN 5', '5 changed'],
    [
      'a number with an exponent',
      five('"sequence":5', '"sequence":5e0'),
      'REWRITTEN 5',
      '5 unreadable',
    ],
    ['a time with more digits', five(/("at":"[^"]+)Z"/, '$1000Z"'), 'REWRITTEN 5', '5 changed'],
    ['a space between', five('"phase":', '"phase": '), 'REWRITTEN 5', '5 changed'],
    ['a space at the end', five(/$/, ' '), 'REWRITTEN 5', '5 unreadable'],
    [
      'its fields in another order',
      five('"code":null,"statedReason":null', '"statedReason":null,"code":null'),
      'REWRITTEN 5',
      '5 changed',
    ],
    [
      'its facts in another order',
      five('"apple":1,"zebra":true', '"zebra":true,"apple":1'),
      'REWRITTEN 5',
      '5 changed',
    ],
    [
      'a field twice',
      five('"code":null', '"code":"ESTALE","code":null'),
      'REWRITTEN 5',
      '5 changed',
    ],
    [
      'lines that end in CR LF',
      (all) => all.map((line) => `${line}\r`),
      'REWRITTEN 1',
      '1 unreadable',
    ],
    ['a byte order mark', (all) => all.with(0, `\ufeff${all[0]}`), 'DAMAGED 1', '1 unreadable'],
    [
      'a byte that is no UTF-8, read as the letter that stood there',
      (all) => latin(text(all), '\xef\xbf\xbd', '\xff'),
      'DAMAGED 1',
      '1 changed',
    ],
    ['something that is no row', (all) => all.with(4, 'no row'), 'DAMAGED 5', '5 unreadable'],
    ['an empty line', (all) => all.toSpliced(4, 0, ''), 'DAMAGED 5', '5 unreadable'],
    [
      'a line without an end',
      (all) => all.with(4, 'x'.repeat(5 << 20)),
      'DAMAGED 5',
      '5 unreadable',
    ],
    ['a row deleted', (all) => all.toSpliced(4, 1), 'MISSING 6', '6 after a gap'],
    [
      'a row inserted',
      (all) => all.toSpliced(4, 0, (all[4] ?? '').replace('row 5', 'row Y')),
      'CHANGED 5',
      '5 changed',
    ],
    ['a row repeated', (all) => all.toSpliced(5, 0, all[4] ?? ''), 'REPEATED 5', '5 again'],
    ['an old row repeated at the end', (all) => [...all, all[4] ?? ''], 'REPEATED 5', '5 again'],
    [
      'two rows swapped',
      (all) => all.with(4, all[5] ?? '').with(5, all[4] ?? ''),
      'MISSING 6',
      '6 after a gap',
    ],
    ['all rows turned round', (all) => all.toReversed(), 'MISSING 20', '20 after a gap'],
    [
      'a row with the number of another',
      (all) => all.with(4, (all[6] ?? '').replace('"sequence":7', '"sequence":5')),
      'CHANGED 5',
      '5 changed',
    ],
    ['the front cut off', (all) => all.slice(3), 'MISSING 4', '4 after a gap'],
    ['the end cut off', (all) => all.slice(0, 10), 'CUT 11', '11 cut'],
    ['the last row cut off', (all) => all.slice(0, -1), 'CUT 20', '20 cut'],
    ['nothing left', () => [], 'CUT 1', '1 cut'],
    ['the last line torn', (all) => Buffer.from(text(all).slice(0, -40)), 'TORN 20', '20 torn'],
    [
      'only its last line feed gone',
      (all) => Buffer.from(text(all).slice(0, -1)),
      'TORN 20',
      '20 torn',
    ],
    [
      'zeros behind it, as after a crash',
      (all) => Buffer.from(`${text(all)}${'\0'.repeat(64)}`),
      'TORN 21',
      '21 torn',
    ],
    [
      'sealed again by another key',
      () => resealed(stranger, 1),
      'UNKNOWN_KEY 1',
      '1 by another key',
    ],
    [
      'sealed again by another key of the same name',
      () => resealed(sameName(), 1),
      'CHANGED 1',
      '1 changed',
    ],
    [
      'one row sealed by another key',
      (all) => all.with(4, resealed(stranger, 5)[4] ?? ''),
      'UNKNOWN_KEY 5',
      '5 by another key',
    ],
    [
      'the rows of another chain among them',
      (all) => all.toSpliced(4, 0, foreign(all)),
      'FOREIGN 5',
      '5 of another chain',
    ],
    [
      'a row of our own that is linked to another',
      (all) => all.with(4, linkedElsewhere()),
      'UNLINKED 5',
      '5 behind another',
    ],
    [
      'a copy of an older day, gone on from there',
      () => resealed(files.keys, 11, { message: 'another day' }),
      'REPLACED 20',
      '20 replaced',
    ],
  ];
  const stranger = parseChainKeys(`stranger ${'ab'.repeat(32)}\n`);
  const sameName = () => parseChainKeys(`${files.keys.current} ${'ab'.repeat(32)}\n`);
  const foreign = (all: readonly string[]) =>
    (all[4] ?? '').replace(files.chain, '0f0e0d0c-0b0a-4908-8706-050403020100');
  const linkedElsewhere = () => {
    const row = rows()[4] ?? expect.fail();
    return journalLine(seal(files.keys, { ...row, previous: 'f'.repeat(64) }));
  };
  const latin = (whole: string, from: string, to: string) =>
    Buffer.from(Buffer.from(whole).toString('latin1').replace(from, to), 'latin1');

  it.each(forgeries)('is refused: %s', async (_, change, first, secondly) => {
    const made = change(lines());
    const forged = Buffer.isBuffer(made) ? made : Buffer.from(text(made));
    await writeFile(files.journal, forged);
    expect((await ours())[0]?.[0]).toBe(first);
    expect(second(forged)).toBe(secondly);
  });

  it('is told from the true one, by both', async () => {
    await writeFile(files.journal, original);
    expect(await ours(true)).toEqual([[], [], []]);
    expect(second(Buffer.from(original))).toBeUndefined();
    console.log(`${forgeries.length} forged journals, ${statements.length} forged tables`);
  });

  it.each([
    ['a row beyond the end', () => sealedHead({ sequence: 25 }), 'CUT 21', '21 cut'],
    ['another row', () => sealedHead({ hash: 'f'.repeat(64) }), 'REPLACED 20', '20 replaced'],
    [
      'less, and was not sealed',
      () => headFile.replace('"sequence":20', '"sequence":10'),
      'HEAD_CHANGED null',
      'head',
    ],
    [
      'the same in other words',
      () => headFile.replace('"sequence":20', '"sequence":20.0'),
      'HEAD_CHANGED null',
      '1 unreadable',
    ],
    ['nothing that can be read', () => 'x\n', 'HEAD_CHANGED null', '1 unreadable'],
  ])('is refused: a head that names %s', async (_, change, first, secondly) => {
    const head = change();
    await writeFile(files.journal, original);
    await writeFile(headPath(), head);
    expect((await ours())[0]?.[0]).toBe(first);
    expect(second(Buffer.from(`${head}${original}`), [])).toBe(secondly);
    await writeFile(headPath(), headFile);
  });
  const sealedHead = (change: { sequence?: number; hash?: string }) => {
    const { chain, sequence, hash } = rows().at(-1) ?? expect.fail();
    return `${headLine(files.keys, { chain, sequence, hash, at: new Date(), ...change })}\n`;
  };

  it('is refused where all of it is of an older day, by a head that was noted elsewhere', async () => {
    const older = text(lines().slice(0, 10));
    const head = rows()[9] ?? expect.fail();
    await writeFile(files.journal, older);
    await writeFile(headPath(), sealedHead({ sequence: 10, hash: head.hash }));
    expect(await ours()).toEqual([[]]);
    const logged = rows()[19] ?? expect.fail();
    const [journal] = await inspect(files, undefined, [logged]);
    expect(journal?.findings.map(of)).toEqual(['CUT 11']);
    expect(second(Buffer.from(older), [logged])).toBe('11 cut');
    await writeFile(headPath(), headFile);
    await writeFile(files.journal, original);
  });

  /** What a forger says to PostgreSQL; both verifiers see what the table gives, as an export. */
  const statements: readonly (readonly [string, string, string])[] = [
    ["update audit_events set message = 'x' where sequence = 5", 'CHANGED 5', '5 changed'],
    [
      "update audit_events set at = at + interval '1 s' where sequence = 5",
      'CHANGED 5',
      '5 changed',
    ],
    ["update audit_events set at = 'infinity' where sequence = 5", 'CHANGED 5', '5 changed'],
    ['update audit_events set facts = \'{"a": 1}\' where sequence = 5', 'CHANGED 5', '5 changed'],
    ["update audit_events set before = '[1]' where sequence = 5", 'CHANGED 5', '5 changed'],
    ["update audit_events set outcome = 'FAILED' where sequence = 5", 'CHANGED 5', '5 changed'],
    [
      'update audit_events set actor_id = gen_random_uuid() where sequence = 5',
      'CHANGED 5',
      '5 changed',
    ],
    ["update audit_events set hash = '\\x00' where sequence = 5", 'CHANGED 5', '5 unreadable'],
    [
      "update audit_events set key_id = 'other' where sequence = 5",
      'UNKNOWN_KEY 5',
      '5 by another key',
    ],
    ['delete from audit_events where sequence = 5', 'MISSING 6', '6 after a gap'],
    ['delete from audit_events where sequence < 5', 'MISSING 5', '5 after a gap'],
    ['delete from audit_events where sequence > 15', 'CUT 16', '16 cut'],
    ['delete from audit_events', 'CUT 1', '1 cut'],
    ['update audit_events set sequence = 21 where sequence = 5', 'MISSING 6', '6 after a gap'],
    ['update audit_events set sequence = -5 where sequence = 5', 'CHANGED -5', '1 unreadable'],
    [
      'update audit_events set sequence = 9007199254740993 where sequence = 20',
      'CHANGED 9007199254740992',
      '9007199254740992 changed',
    ],
    [
      'update audit_events set sequence = case sequence when 5 then 1006 else 1005 end where sequence in (5, 6)',
      'MISSING 7',
      '7 after a gap',
    ],
  ];
  it.each(statements)('is refused in the table: %s', async (statement, first, secondly) => {
    const before: SealedRow[] = [];
    for await (const row of tableRows(test.database.drizzle, files.chain)) before.push(row);
    await test.tamper(statement);
    const head = { ...(rows()[19] ?? expect.fail()) };
    const { findings } = await verify(tableRows(test.database.drizzle, files.chain), files.keys, [
      head,
    ]);
    expect(findings.map(of)[0]).toBe(first);
    const exported: string[] = [];
    // A directory without heads, and an export without the one at its end.
    const bare = { ...files, directory: '/nonexistent' };
    await writeExport(bare, test.database.drizzle, (line) => exported.push(line));
    if (exported.length > 0) exported.pop();
    expect(second(Buffer.from(text(exported)))).toBe(secondly);
    await test.tamper('delete from audit_events');
    await insertRows(test.database.drizzle, before);
    expect(await ours(true)).toEqual([[], [], []]);
  });

  it('is found where table and journal differ, also when each is whole in itself', async () => {
    const all = rows();
    async function* each(given: readonly SealedRow[]): AsyncGenerator<SealedRow> {
      yield* given;
    }
    const other = all.with(4, { ...(all[4] ?? expect.fail()), hash: 'f'.repeat(64) });
    const between = async (one: readonly SealedRow[], two: readonly SealedRow[]) =>
      (await compare(each(one), each(two))).map(of);
    expect(await between(all, other)).toEqual(['DIFFERENT 5']);
    expect(await between(all.slice(0, -1), all)).toEqual(['JOURNAL_BEHIND 20']);
    expect(await between(all, all.toSpliced(4, 1))).toEqual(['TABLE_BEHIND 5']);
    expect(await between(all, all)).toEqual([]);
    await writeFile(files.journal, text(resealed(files.keys, 5, { message: 'both whole' })));
    const [, table, both] = await ours(true);
    expect([table, both?.[0]]).toEqual([[], 'DIFFERENT 5']);
    await writeFile(files.journal, original);
  });

  it('is counted where there is no end of findings', async () => {
    async function* many(): AsyncGenerator<SealedRow> {
      const [row] = rows();
      for (let index = 0; index < 3_000; index++) yield { ...(row ?? expect.fail()), hash: 'f' };
    }
    const { findings, unlisted } = await verify(many(), files.keys);
    expect([findings.length, unlisted]).toEqual([1_000, 3_000 + 2_999 - 1_000]);
  });

  it('is an alarm at the next start: a cut of both places, and a table that is ahead', async () => {
    const { stateDir } = test.config;
    const cut = text(lines().slice(0, 10));
    await writeFile(files.journal, cut);
    const problems = async (work: (audit: Awaited<ReturnType<typeof openAudit>>) => unknown) => {
      const log = keptLog();
      await using audit = await openAudit(stateDir, test.database, log);
      await work(audit);
      const said = audit.problems().map(({ message }) => message);
      return { said: said.join(), logged: log.lines.join('\n') };
    };
    const ahead = await problems(() => undefined);
    expect(ahead.said).toMatch(/journal ends before row 20/);
    expect(ahead.logged).toMatch(/audit alarm/);
    await test.tamper('delete from audit_events where sequence > 10');
    // It goes on, and the evidence stays.
    const both = await problems(async (audit) => {
      expect((await audit.append(entry())).sequence).toBe(11);
    });
    expect(both.said).toMatch(/ends at row 10, but had 20 rows/);
    expect((await ours())[0]?.join()).toMatch(/CUT|REPLACED/);
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
    await writeFile(path, text(all.with(3, (all[3] ?? '').replace('a test', 'forged'))));
    {
      await using audit = await openAudit(stateDir, other.database, keptLog());
      await expect(audit.append(entry())).rejects.toThrow('nothing was done');
      expect(audit.problems().map(({ code }) => code)).toContain('AUDIT_UNAVAILABLE');
    }
    await writeFile(path, text(all));
    await rm(join(stateDir, 'audit/reserve'));
    const instance = join(stateDir, 'instance-id');
    const own = await readFile(instance, 'utf8');
    await writeFile(instance, `${randomUUID()}\n`);
    {
      await using audit = await openAudit(stateDir, other.database, keptLog());
      expect(audit.problems()[0]).toMatchObject({
        message: expect.stringContaining('Put the one that was exchanged back'),
        remedy: expect.stringContaining('restart the service'),
      });
    }
    await writeFile(instance, own);
    await using audit = await openAudit(stateDir, other.database, keptLog());
    expect((await audit.append(entry())).sequence).toBe(5);
    const { rows: stored } = await other.database.pool.query(
      'select count(*)::int as n from audit_events',
    );
    expect(stored).toEqual([{ n: 5 }]);
  });

  it('says at the start what is wrong with the last row', async () => {
    await using other = await openTestDatabase('embedded');
    const { stateDir } = other.config;
    const start = async () => {
      await using audit = await openAudit(stateDir, other.database, keptLog());
      return audit.problems().map(({ message }) => message);
    };
    {
      await using audit = await openAudit(stateDir, other.database, keptLog());
      await audit.append(entry());
    }
    const path = join(stateDir, 'audit/journal.jsonl');
    const journal = await readFile(path, 'utf8');
    await writeFile(path, journal.replace('a test', 'forged'));
    expect(await start()).toEqual(['Row 1 of the audit journal is not what was written.']);
    await writeFile(path, journal);
    await writeFile(join(stateDir, 'audit.key'), `k1 ${'ab'.repeat(32)}\n`);
    expect(await start()).toEqual([
      expect.stringMatching(
        /^Row 1 of the audit table is sealed by key .*, which is not in audit.key/,
      ),
      expect.stringMatching(/^Row 1 of the audit journal is sealed by key/),
      expect.stringMatching(/head\.json is not as the service wrote it/),
    ]);
  });

  it('goes on under no other key where its own is gone, until another chain is chosen', async () => {
    await using other = await openTestDatabase('embedded');
    const { stateDir } = other.config;
    const start = () => openAudit(stateDir, other.database, keptLog());
    {
      await using audit = await start();
      await audit.append(entry());
    }
    const path = (name: string) => join(stateDir, name);
    const journal = path('audit/journal.jsonl');
    const key = await readFile(path('audit.key'));
    await rm(path('audit.key'));
    await expect(start()).rejects.toThrow(
      /There is no .*audit\.key: .* move instance-id and audit/,
    );
    await rename(journal, path('away'));
    await expect(start(), 'with the table alone').rejects.toThrow(/There is no .*audit\.key/);
    await rename(path('away'), journal);
    await expect(readFile(path('audit.key'))).rejects.toThrow(/ENOENT/);

    await writeFile(path('audit.key'), key, { mode: 0o600 });
    {
      await using audit = await start();
      expect(audit.problems()).toEqual([]);
      expect((await audit.append(entry())).sequence).toBe(2);
    }
    for (const name of ['audit.key', 'instance-id', 'audit'])
      await rename(path(name), path(`old-${name}`));
    await using audit = await start();
    expect(audit.problems()).toEqual([]);
    expect((await audit.append(entry())).sequence).toBe(1);
  });
});
