import { cp } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { AuditUnavailableError } from '../../src/audit/audit.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import { entry, intent, keptLog } from '../support/audit.ts';
import { claim, expectWhole, stored, took } from '../support/audit-faults.ts';
import { lacks } from '../support/needs.ts';
import { openTestDatabase } from '../support/postgres.ts';
import { mountSmallDisk } from '../support/small-disk.ts';
import { eventually } from '../support/tmux-server.ts';

/** Faults of the database and of the state directory in which no time is measured. */

describe('a database', () => {
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
      await expectWhole(test);
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
    await expectWhole(test);
  });
});

describe('the state directory', () => {
  it.skipIf(lacks('root', 'mount'))(
    'without space: no act is taken, which is a problem and in the log for as long as it lasts',
    async () => {
      await using disk = await mountSmallDisk(3_072);
      await using test = await openTestDatabase('server');
      const { stateDir } = test.config;
      await cp(stateDir, disk.path, { recursive: true });
      const log = keptLog();
      await using audit = await openAudit(disk.path, test.database, log);
      const problems = () => audit.problems().map(({ code }) => code);
      await audit.append(entry());
      expect(problems()).toEqual([]);
      await disk.fill(100 << 10);
      expect(problems()).toEqual(['AUDIT_UNAVAILABLE']);
      for (let tries = 0; tries < 3; tries += 1)
        await expect(audit.append(entry())).rejects.toThrow(AuditUnavailableError);
      expect(log.lines.filter((line) => /NoSpaceError.*acts are refused/.test(line))).toHaveLength(
        1,
      );
      await disk.free();
      expect(problems()).toEqual([]);
      await audit.append(entry());
      expect(log.lines.at(-1)).toMatch(/can be written again/);
    },
  );

  it('with a second writer of its chain: the second one does not start, the first goes on', async () => {
    await using test = await openTestDatabase('embedded');
    await using first = await openAudit(test.config.stateDir, test.database, keptLog());
    await first.append(entry());
    await expect(openAudit(test.config.stateDir, test.database, keptLog())).rejects.toThrow(
      /Another process writes audit chain/,
    );
    expect((await first.append(entry())).sequence).toBe(2);
    await expectWhole(test);
  });
});
