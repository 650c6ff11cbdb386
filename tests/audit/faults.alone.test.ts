import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { AuditUnavailableError } from '../../src/audit/audit.ts';
import { readChainKeys } from '../../src/audit/chain-key.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import { journalRows } from '../../src/audit/sources.ts';
import { verify } from '../../src/audit/verify.ts';
import { entry, intent, keptLog } from '../support/audit.ts';
import { lacks } from '../support/needs.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { mountSmallDisk } from '../support/small-disk.ts';
import { eventually } from '../support/tmux-server.ts';

const claim = () => ({
  actorId: randomUUID(),
  mutation: 'm',
  key: 'k',
  inputHash: Buffer.from('h'),
});

async function took<T>(what: Promise<T>): Promise<number> {
  const began = performance.now();
  await expect(what).rejects.toThrow(AuditUnavailableError);
  return performance.now() - began;
}

async function stored(test: TestDatabase) {
  const { rows } = await test.database.pool.query<{
    phase: string;
    outcome: string | null;
    code: string | null;
  }>('select phase, outcome, code from audit_events order by sequence');
  return rows.map(({ phase, outcome, code }) => [phase, outcome, code].filter(Boolean).join(' '));
}

async function whole(test: TestDatabase, stateDir = test.config.stateDir) {
  const journal = join(stateDir, 'audit/journal.jsonl');
  expect((await verify(journalRows(journal), await readChainKeys(stateDir))).findings).toEqual([]);
}

describe('a database that is away', () => {
  it('refuses acts within 2 s, takes them again by itself, and records what was refused', async () => {
    await using test = await openTestDatabase('server');
    const server = test.server ?? expect.fail();
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    await audit.intend(intent(), claim());
    await server.stop();
    const taken = claim();
    for (let round = 0; round < 3; round++)
      expect(await took(audit.intend(intent(), taken))).toBeLessThan(2_000);
    expect(
      await took(audit.once(claim(), () => expect.fail('an act without a look at its key'))),
    ).toBeLessThan(2_000);
    // A refusal goes into the journal, and into the table later.
    expect(await took(audit.append(entry({ outcome: 'DENIED' })))).toBeLessThan(2_000);
    expect(audit.problems().map(({ code }) => code)).toEqual(['AUDIT_UNAVAILABLE']);
    await server.start();
    const again = await eventually(
      () => audit.intend(intent(), taken).catch(() => undefined),
      'the record goes on',
    );
    expect(again.sequence).toBeGreaterThan(1);
    expect(audit.problems()).toEqual([]);
    // Every intent but the first and the last says that nothing was done.
    const open = (await audit.openIntents()).map(({ sequence }) => sequence);
    expect(open).toEqual([1, again.sequence]);
    const rows = await stored(test);
    expect(rows).toContain('OUTCOME DENIED');
    expect(rows.filter((row) => row === 'OUTCOME FAILED EAUDIT').length).toBeGreaterThan(0);
    await whole(test);
  });

  it('that is frozen in the middle of a commit costs a caller 2 s, and no key', async () => {
    await using test = await openTestDatabase('server');
    const server = test.server ?? expect.fail();
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    await audit.append(entry());
    const [{ pid } = { pid: 0 }] = (
      await test.database.pool.query<{ pid: number }>(
        `select pid from pg_locks where locktype = 'advisory' limit 1`,
      )
    ).rows;
    expect(pid).toBeGreaterThan(0);
    const one = claim();
    process.kill(pid, 'SIGSTOP');
    try {
      expect(await took(audit.intend(intent(), one))).toBeLessThan(2_000);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await eventually(
      async () => (await stored(test)).includes('OUTCOME FAILED EAUDIT'),
      'the intent is closed',
    );
    // Nothing was done, so the key is free.
    const begun = await audit.intend(intent(), one);
    expect(begun.phase).toBe('INTENT');
    expect(server.port).toBeGreaterThan(0);
    await whole(test);
  });

  it('that ends every connection loses nothing, and no caller notices', async () => {
    await using test = await openTestDatabase('embedded');
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    for (let round = 0; round < 5; round++) {
      await audit.append(entry());
      await test.database.pool.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
      );
    }
    expect((await audit.append(entry())).sequence).toBe(6);
  });

  it.each(['nothing was', 'a row was'])(
    'that crashed before it had the last rows on its disk has them again from the journal (%s added since)',
    async (since) => {
      await using test = await openTestDatabase('server');
      const server = test.server ?? expect.fail();
      // So that none of them gets there by itself.
      await server.query("alter system set wal_writer_delay = '10s'");
      await server.query('select pg_reload_conf()');
      const log = keptLog();
      await using audit = await openAudit(test.config.stateDir, test.database, log);
      const begun = await audit.intend(intent(), claim());
      const rows = await Promise.all(Array.from({ length: 20 }, () => audit.append(entry())));
      expect(await stored(test)).toHaveLength(21);
      await server.signal('SIGKILL');
      await server.start();
      if (since === 'a row was')
        await eventually(() => audit.append(entry()).catch(() => undefined), 'the record goes on');
      await eventually(
        () => log.lines.join('\n').includes('they come from the journal again'),
        'what was lost is noticed',
      );
      const [lost] = /(?<="rows":)\d+/.exec(log.lines.join('\n')) ?? expect.fail();
      // The intent holds a key that other instances rely on, so it was waited for.
      expect(Number(lost)).toBeLessThanOrEqual(20);
      expect(Number(lost)).toBeGreaterThan(0);
      for (const row of [begun, ...rows])
        expect(await eventually(() => audit.event(row.id), 'the row is there')).toEqual(row);
      await whole(test);
    },
  );

  it('when the service ends meanwhile: the next start puts the rows of the journal into the table', async () => {
    await using test = await openTestDatabase('server');
    const server = test.server ?? expect.fail();
    {
      await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
      await audit.append(entry());
      await server.stop();
      await took(audit.append(entry({ message: 'in the journal alone' })));
    }
    await server.start();
    expect(await eventually(() => stored(test).catch(() => undefined), 'it answers')).toHaveLength(
      1,
    );
    const log = keptLog();
    await using audit = await openAudit(test.config.stateDir, test.database, log);
    expect(await stored(test)).toHaveLength(2);
    expect(log.lines.join('\n')).toMatch(/rows of the journal go into the table/);
    expect((await audit.append(entry())).sequence).toBe(3);
    await whole(test);
  });
});

describe('the state directory', () => {
  it('with a second writer of its chain: the second one does not start, the first goes on', async () => {
    await using test = await openTestDatabase('embedded');
    await using first = await openAudit(test.config.stateDir, test.database, keptLog());
    await first.append(entry());
    await expect(openAudit(test.config.stateDir, test.database, keptLog())).rejects.toThrow(
      /Another process writes audit chain/,
    );
    expect((await first.append(entry())).sequence).toBe(2);
    await whole(test);
  });

  it.skipIf(lacks('root', 'mount'))(
    'on a full disk: acts are refused at once, reads go on, and space makes it go on',
    async () => {
      await using disk = await mountSmallDisk(4_096);
      await using test = await openTestDatabase('embedded');
      await using audit = await openAudit(disk.path, test.database, keptLog());
      const before = await audit.append(entry());
      const begun = await audit.intend(intent(), claim());
      await disk.fill(64 << 10);
      expect(await took(audit.intend(intent(), claim()))).toBeLessThan(2_000);
      // What is left is for the outcomes of what runs.
      await audit.conclude(entry({ intentId: begun.id, message: 'first' }), 1);
      await disk.fill(0);
      expect(await took(audit.intend(intent(), claim()))).toBeLessThan(2_000);
      const late = audit.conclude(entry({ intentId: begun.id, message: 'late' }), 2);
      expect(await took(late)).toBeLessThan(2_000);
      expect(await audit.event(before.id)).toEqual(before);
      expect(await stored(test)).toHaveLength(3);
      await disk.free();
      await eventually(async () => (await stored(test)).length === 4, 'the late outcome follows');
      expect((await audit.append(entry())).sequence).toBe(5);
      await whole(test, disk.path);
    },
  );
});
