import { describe, expect, it } from 'vitest';
import { openAudit } from '../../src/audit/open-audit.ts';
import { entry, intent, keptLog } from '../support/audit.ts';
import { claim, expectWhole, stored, took } from '../support/audit-faults.ts';
import { lacks } from '../support/needs.ts';
import { openTestDatabase } from '../support/postgres.ts';
import { mountSmallDisk } from '../support/small-disk.ts';
import { stopProcess } from '../support/stop-process.ts';
import { eventually } from '../support/tmux-server.ts';

describe('a database that is away', () => {
  it('refuses acts within 2 s, takes them again by itself, and records what was refused', async () => {
    await using test = await openTestDatabase('server');
    const server = test.server ?? expect.fail();
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    await audit.intend(intent(), claim());
    await server.stop();
    const taken = claim();
    const refusals = await Promise.all([
      took(audit.intend(intent(), taken)),
      took(audit.once(claim(), () => expect.fail('an act without a look at its key'))),
      // A refusal goes into the journal, and into the table later.
      took(audit.append(entry({ outcome: 'DENIED' }))),
    ]);
    // Also when others were refused before.
    refusals.push(await took(audit.intend(intent(), taken)));
    expect(Math.max(...refusals)).toBeLessThan(2_000);
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
    await expectWhole(test);
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
    await stopProcess(pid);
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
    await expectWhole(test);
  });
});

describe('the state directory', () => {
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
      await expectWhole(test, disk.path);
    },
  );
});
