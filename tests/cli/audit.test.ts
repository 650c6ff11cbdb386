import { randomUUID } from 'node:crypto';
import { appendFile, mkdir, readFile, rename, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowsOfChain } from '../../src/audit/audit-table.ts';
import { readInstanceId } from '../../src/audit/chain-key.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import type { Io } from '../../src/cli/command.ts';
import { run } from '../../src/cli/run.ts';
import { createLogger } from '../../src/log.ts';
import { entry, keptLog } from '../support/audit.ts';
import { databaseKinds, openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { firstBadRow } from '../support/second-verifier.ts';

async function muxwarden(environment: Record<string, string>, ...words: string[]) {
  const out: string[] = [];
  const notes: string[] = [];
  const io: Io = {
    environment,
    out: (text) => out.push(text),
    note: (text) => notes.push(text),
    readSecret: async () => '',
  };
  const status = await run(['audit', ...words], io);
  return { status, out: out.map((line) => `${line}\n`).join(''), notes: notes.join('\n') };
}

describe.each(databaseKinds)('muxwarden audit (%s)', (kind) => {
  let test: TestDatabase;
  let environment: Record<string, string>;
  let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
  let chain: string;
  /** What a service writes to its log. */
  const log: string[] = [];
  const journal = () => join(test.config.stateDir, 'audit/journal.jsonl');
  const here = (...words: string[]) => muxwarden(environment, ...words);
  beforeAll(async () => {
    test = await openTestDatabase(kind);
    scratch = await scratchDirectory();
    const { stateDir, databaseUrl } = test.config;
    environment = {
      MUXWARDEN_STATE_DIR: stateDir,
      ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
    };
    const logger = createLogger({ destination: { write: (line) => void log.push(line) } });
    await using audit = await openAudit(stateDir, test.database, logger);
    for (let index = 1; index <= 30; index++) await audit.append(entry({ message: `${index}` }));
    chain = await readInstanceId(stateDir);
  });
  afterAll(async () => {
    await scratch[Symbol.asyncDispose]();
    await test[Symbol.asyncDispose]();
  });

  it('verify says that journal and table are whole, beside a service that writes', async () => {
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    let writing = true;
    const writer = (async () => {
      while (writing) await Promise.all([1, 2, 3].map(() => audit.append(entry())));
    })();
    const { status, out, notes } = await here('verify');
    writing = false;
    await writer;
    expect([status, notes]).toEqual([0, '']);
    expect(out).toMatch(
      new RegExp(
        `^ok {7}${chain}, journal: \\d+ rows, whole\nok {7}${chain}, table: \\d+ rows, whole\nok {7}${chain}, journal and table: are alike\n$`,
      ),
    );
  });

  it('verify names the first bad row and why, for people and for programs', async () => {
    const original = await readFile(journal());
    const lines = original.toString().split('\n');
    await writeFile(journal(), lines.with(4, (lines[4] ?? '').replace('"5"', '"6"')).join('\n'));
    const alone = await here('verify', '--journal');
    expect(alone.status).toBe(1);
    expect(alone.out).toMatch(
      /^PROBLEM .*, journal: \d+ rows; first bad row: 5, CHANGED: the hash is not that of the row\n$/,
    );
    const json = (await here('verify', '--json')).out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(json.map(({ place, ok }) => [place, ok])).toEqual([
      ['journal', false],
      ['table', true],
      ['journal and table', true],
    ]);
    expect(json[0].findings).toMatchObject([{ kind: 'CHANGED', sequence: 5 }]);
    await rename(journal(), `${journal()}.away`);
    expect((await here('verify', '--journal')).out).toMatch(
      /first bad row: 1, CUT: it ends at row 0/,
    );
    await writeFile(journal(), original);
    await test.tamper(`delete from audit_events where sequence = 7`);
    const gap = await here('verify');
    expect([gap.status, gap.out]).toEqual([
      1,
      expect.stringMatching(/table: .* first bad row: 8, MISSING/),
    ]);
    expect(gap.out).toMatch(/journal and table: .* first bad row: 7, TABLE_BEHIND/);
    const row = JSON.parse(lines[6] ?? '');
    await test.tamper(
      `insert into audit_events select * from jsonb_populate_record(null::audit_events, $1)`,
      [JSON.stringify(snake({ ...row, previous: `\\x${row.previous}`, hash: `\\x${row.hash}` }))],
    );
    expect(await here('verify')).toMatchObject({ status: 0 });
  });

  it('verify takes the heads that the log of the service has', async () => {
    const path = join(scratch.path, 'service.log');
    await writeFile(path, `not JSON\n${log.join('')}`);
    expect(await here('verify', '--journal', '--heads', path)).toMatchObject({ status: 0 });
    const later = log.join('').replace(/"sequence":\d+/, '"sequence":1000000');
    await writeFile(path, later);
    const cut = await here('verify', '--journal', '--heads', path);
    expect([cut.status, cut.out]).toEqual([
      1,
      expect.stringMatching(/CUT: it ends at row \d+, but had 1000000/),
    ]);
    await writeFile(path, 'nothing\n');
    expect((await here('verify', '--heads', path)).notes).toMatch(/no 'audit head' in/);
  });

  it('export writes what both verifiers take, is on record itself, and shows what is wrong', async () => {
    const written = await here('export');
    expect(written.status).toBe(0);
    const file = join(scratch.path, 'export.jsonl');
    await writeFile(file, written.out);
    expect(await here('verify', file)).toMatchObject({ status: 0, notes: '' });
    const elsewhere = await muxwarden(
      { MUXWARDEN_STATE_DIR: join(scratch.path, 'nothing') },
      ...['verify', file, '--keys', join(test.config.stateDir, 'audit.key')],
      ...['--keys', join(test.config.stateDir, 'commands/audit.key')],
    );
    expect(elsewhere).toMatchObject({ status: 0, notes: '' });

    const key = join(test.config.stateDir, 'commands/audit.key');
    await rename(key, `${key}.away`);
    const keyless = await here('verify');
    expect([keyless.status, keyless.notes]).toEqual([1, expect.stringContaining(key)]);
    await rename(`${key}.away`, key);

    const commands = await readInstanceId(join(test.config.stateDir, 'commands'));
    const [record] = await rowsOfChain(test.database.drizzle, { chain: commands, after: 0 }, 10);
    expect(record).toMatchObject({ action: 'EXPORT_AUDIT_LOG', outcome: 'SUCCEEDED', sequence: 1 });
    expect(record?.actorAgent).toMatch(/^muxwarden audit export, by \S+ \(uid \d+\)$/);
    expect(written.out).toContain(record?.hash);
    // The rows are the journal's own bytes, and a second verifier finds each chain whole.
    expect(written.out).toContain(await readFile(journal(), 'utf8'));
    for (const [name, of] of [
      [chain, test.config.stateDir],
      [commands, join(test.config.stateDir, 'commands')],
    ] as const) {
      const own = written.out.split('\n').filter((line) => line.startsWith(`{"chain":"${name}"`));
      const text = Buffer.from(own.map((line) => `${line}\n`).join(''));
      expect(
        firstBadRow(text, await readFile(join(of, 'audit.key'), 'utf8'), name),
      ).toBeUndefined();
    }

    for (const [change, said] of [
      [
        (text: string) => text.replace('"message":"9"', '"message":"8"'),
        /first bad row: 9, CHANGED/,
      ],
      [
        (text: string) => text.split('\n').slice(0, -3).join('\n').concat('\n'),
        /CUT: it ends at row 0, but had 1 at/,
      ],
      [(text: string) => text.slice(0, -30), /TORN/],
      [
        (text: string) => text.replaceAll(/^\{"chain":"[^"]*","sequence":\d+,"hash":.*\n/gm, ''),
        /OPEN_END/,
      ],
      [(text: string) => text.replace(/"mac":"..../, '"mac":"0000'), /HEAD_CHANGED/],
      [() => '', /CUT: it has no row at all/],
    ] as const) {
      await writeFile(file, change(written.out));
      const forged = await here('verify', file);
      expect([forged.status, forged.out]).toEqual([1, expect.stringMatching(said)]);
    }

    const before = await readFile(journal());
    const lines = before.toString().split('\n');
    await writeFile(journal(), lines.toSpliced(4, 1).join('\n'));
    const gap = await here('export');
    expect([gap.status, gap.notes]).toEqual([
      1,
      expect.stringMatching(/first bad row: 6, MISSING: rows 5 to 5/),
    ]);
    expect(gap.out).not.toContain(lines[4]);
    expect(await here('export', '--table')).toMatchObject({ status: 0 });
    await writeFile(journal(), before);
    expect(await here('verify')).toMatchObject({ status: 0 });
  });

  it('verify says of rows that nobody here wrote whose they are not', async () => {
    const [row] = await rowsOfChain(test.database.drizzle, { chain, after: 0 }, 1);
    const invented = snake({
      ...row,
      chain: 'invented',
      id: '00000000-0000-4000-8000-000000000000',
    });
    await test.tamper(
      `insert into audit_events select * from jsonb_populate_record(null::audit_events, $1)`,
      [JSON.stringify({ ...invented, previous: '\\x00', hash: '\\x00' })],
    );
    const { status, out, notes } = await here('verify');
    expect(status).toBe(kind === 'embedded' ? 1 : 0);
    expect(kind === 'embedded' ? out : notes).toMatch(/invented, table: up to row 1, not checked/);
    await test.tamper(`delete from audit_events where chain = 'invented'`);
  });

  it('says what it can not look at, and makes nothing where nothing has run', async () => {
    const none = await muxwarden({ MUXWARDEN_STATE_DIR: join(scratch.path, 'none') }, 'export');
    expect([none.status, none.out]).toEqual([1, '']);
    expect(none.notes).toMatch(/no service has run with this state directory/);
    await expect(readFile(join(scratch.path, 'none/audit.key'))).rejects.toThrow(/ENOENT/);
    expect((await here('verify', '/nowhere/export')).notes).toMatch(/ENOENT/);
    await rename(journal(), `${journal()}.away`);
    await mkdir(journal());
    for (const words of [['verify'], ['verify', '--journal'], ['export']]) {
      const { status, notes } = await here(...words);
      expect([status, notes]).toEqual([
        1,
        expect.stringMatching(/: \S+ is no regular file\. Move/),
      ]);
    }
    await rmdir(journal());
    await rename(`${journal()}.away`, journal());
    await appendFile(journal(), '{"torn');
    expect((await here('verify', '--journal')).out).toMatch(/TORN: line \d+ was cut/);
  });
});

it('says what is missing where the table can not be looked at', async () => {
  await using test = await openTestDatabase('embedded');
  {
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    await audit.append(entry());
  }
  const environment = {
    MUXWARDEN_STATE_DIR: test.config.stateDir,
    DATABASE_URL: 'postgres://u:very-secret@127.0.0.1:1/d',
  };
  const away = await muxwarden(environment, 'verify');
  expect([away.status, away.notes]).toEqual([1, expect.stringMatching(/accepts no connections/)]);
  expect(away.notes).not.toContain('very-secret');
  expect(await muxwarden(environment, 'verify', '--journal')).toMatchObject({ status: 0 });
  const unrecorded = await muxwarden(environment, 'export');
  expect([unrecorded.status, unrecorded.out]).toEqual([1, '']);
});

it('never ends well where what it writes is lost', async () => {
  await using folder = await scratchDirectory();
  await writeFile(join(folder.path, 'instance-id'), `${randomUUID()}\n`, { mode: 0o600 });
  await writeFile(join(folder.path, 'audit.key'), `k1 ${'ab'.repeat(32)}\n`, { mode: 0o600 });
  const env = { MUXWARDEN_STATE_DIR: folder.path };
  const command = [process.execPath, new URL('../../src/cli.ts', import.meta.url).pathname];
  for (const [script, status, said] of [
    // Whoever was to read has left.
    ['exec 3> >(exit 0); wait $!; exec "$@" >&3', 141, /^$/],
    ['exec "$@" > /dev/full', 1, /^muxwarden: The output can't be written: ENOSPC.*$/],
  ] as const) {
    const words = ['-c', script, 'bash', ...command, 'audit', 'verify', '--journal'];
    const { exitCode, stderr } = await execa('bash', words, { env, reject: false });
    expect([exitCode, stderr]).toEqual([status, expect.stringMatching(said)]);
  }
});

const snake = (row: Record<string, unknown>) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  );
