import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readChainKeys } from '../../src/audit/chain-key.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import { journalRows } from '../../src/audit/sources.ts';
import { verify } from '../../src/audit/verify.ts';
import { Bell } from '../../src/concurrency/bell.ts';
import { systemClock } from '../../src/concurrency/clock.ts';
import { answerRestored, reconcile } from '../../src/resolvers/reconcile.ts';
import { restartTmuxServer } from '../../src/resolvers/restart-server.ts';
import {
  actingContext,
  bootId,
  member,
  pathHex,
  ScriptedFleet,
  serverRestart,
  state,
  viewer,
} from '../support/acting.ts';
import { entry, keptLog } from '../support/audit.ts';
import { startChild } from '../support/child.ts';
import { openTestDatabase } from '../support/postgres.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';

/** What a killed service leaves is closed by the next one, and nothing is done twice. */

const alice = member('DEVELOPER', 'alice');
const input = (idempotencyKey: string) => serverRestart(alice, idempotencyKey);

/**
 * A service that acts, says where it is, and stays there: `in run`, or goes on to `answered`. However busy
 * the machine is, it waits for its record.
 */
const service = (stateDir: string, url: string, key: string, hang: boolean) => `
  const load = (path) => import(root + path);
  const { openDatabase } = await load('src/database/open.ts');
  const { openAudit } = await load('src/audit/open-audit.ts');
  const { restartTmuxServer } = await load('src/resolvers/restart-server.ts');
  const support = await load('tests/support/acting.ts');
  const database = await openDatabase({ databaseUrl: ${JSON.stringify(url)}, stateDir: ${JSON.stringify(stateDir)} });
  const audit = await openAudit(${JSON.stringify(stateDir)}, database, { info() {}, warn() {}, error() {} }, { withinMs: 60_000 });
  const fleet = new support.ScriptedFleet();
  const run = fleet.run;
  fleet.run = async (request) => {
    console.log('in run');
    if (${hang}) await new Promise(() => {});
    return await run(request);
  };
  const alice = ${JSON.stringify({ ...alice, createdAt: 0 })};
  const context = support.actingContext({ audit, fleet, viewer: support.viewer(alice), members: [alice] });
  await restartTmuxServer(context, ${JSON.stringify(input(key))});
  console.log('answered');
`;

describe('a service that was killed', () => {
  it('between intent and outcome: the next start says UNKNOWN with evidence, and does nothing again', async () => {
    await using test = await openTestDatabase('server');
    const url = test.config.databaseUrl ?? expect.fail();
    const { stateDir } = test.config;
    const key = randomUUID();
    {
      await using child = await startChild(service(stateDir, url, key, true));
      expect(await child.line()).toBe('in run');
      await child.kill('SIGKILL');
    }
    await using audit = await openAudit(stateDir, test.database, keptLog());
    const fleet = new ScriptedFleet();
    fleet.now = state({ generation: `${bootId}:300:3000`, pid: 300 });
    const [intent] = await audit.openIntents();
    // Before the reconciliation a repeat waits for it rather than act.
    const context = actingContext({ audit, fleet, viewer: viewer(alice), members: [alice] });
    const early = restartTmuxServer(context, input(key));
    expect(await reconcile(audit, fleet)).toBe(1);
    const answer = await early;
    expect(answer).toMatchObject({ __typename: 'OutcomeUnknownError', code: 'EUNKNOWN' });
    expect(await restartTmuxServer(context, input(key))).toEqual(answer);
    expect(fleet.ran).toEqual([]);
    expect(await reconcile(audit, fleet)).toBe(0);
    const rows = (await audit.page({ visibleTo: null }, 10)).edges.map(({ event }) => event);
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatchObject({
      phase: 'OUTCOME',
      outcome: 'UNKNOWN',
      code: 'EUNKNOWN',
      intentId: intent?.id,
      operationId: intent?.operationId,
      actorId: alice.id,
      before: { pid: 100 },
      after: { pid: 300 },
    });
    expect(rows[0]?.message).toMatch(/pid 100.*pid 300.*not the process of before/);
    // A new key is a new act.
    expect(await restartTmuxServer(context, input(randomUUID()))).toMatchObject({
      __typename: 'RestartTmuxServerPayload',
    });
    const found = await verify(
      journalRows(join(stateDir, 'audit/journal.jsonl')),
      await readChainKeys(stateDir),
    );
    expect(found).toEqual({ rows: 4, findings: [] });
  });

  it('between journal and table: the key is taken at the next start, and nothing is done again', async () => {
    await using test = await openTestDatabase('server');
    const url = test.config.databaseUrl ?? expect.fail();
    const { stateDir } = test.config;
    const key = randomUUID();
    const journal = join(stateDir, 'audit/journal.jsonl');
    const count = async (table: string) =>
      (await test.database.pool.query(`select count(*)::int as n from ${table}`)).rows[0]?.n;
    {
      // Reads go on, so the act gets as far as its intent, whose transaction then waits.
      const blocker = await test.database.connect();
      try {
        await blocker.query('begin; lock table idempotency_keys in exclusive mode');
        await using child = await startChild(service(stateDir, url, key, true));
        await eventually(
          async () => (await readFile(journal, 'utf8').catch(() => '')).endsWith('\n'),
          'the intent is in the journal',
        );
        await child.kill('SIGKILL');
      } finally {
        await blocker.end();
      }
    }
    expect([await count('audit_events'), await count('idempotency_keys')]).toEqual([0, 0]);
    await using audit = await openAudit(stateDir, test.database, keptLog());
    const fleet = new ScriptedFleet();
    const context = actingContext({ audit, fleet, viewer: viewer(alice), members: [alice] });
    expect([await count('audit_events'), await count('idempotency_keys')]).toEqual([1, 1]);
    expect(await reconcile(audit, fleet)).toBe(1);
    const answer = await restartTmuxServer(context, input(key));
    expect(answer).toMatchObject({ __typename: 'OutcomeUnknownError', code: 'EUNKNOWN' });
    expect(await restartTmuxServer(context, input(key))).toEqual(answer);
    expect(await restartTmuxServer(context, { ...input(key), force: true })).toMatchObject({
      code: 'EIDEMPOTENCY',
    });
    expect(fleet.ran).toEqual([]);
    expect((await verify(journalRows(journal), await readChainKeys(stateDir))).findings).toEqual(
      [],
    );
  });

  it('says what it could not see: the same process, or no look at all', async () => {
    await using test = await openTestDatabase('embedded');
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog());
    const base = { phase: 'INTENT', outcome: null, action: 'RESTART_TMUX_SERVER' } as const;
    const claim = (key: string) => ({
      actorId: alice.id,
      mutation: 'restartTmuxServer',
      key,
      inputHash: Buffer.from(key),
    });
    const fleet = new ScriptedFleet();
    const message = async () =>
      (await audit.page({ visibleTo: null }, 1)).edges[0]?.event.message ?? '';
    const left = entry({ ...base, memberId: alice.id, before: state(), facts: { pathHex } });
    await audit.intend(left, claim('1'));
    await reconcile(audit, fleet);
    expect(await message()).toMatch(/same process/);
    fleet.now = new Error('no helper');
    await audit.intend(left, claim('2'));
    await reconcile(audit, fleet);
    expect(await message()).toMatch(/could not look \(no helper\)/);
  });

  it('anywhere in an act: every act has its intent, every intent its outcome, none is done twice', async () => {
    await using test = await openTestDatabase('server');
    const url = test.config.databaseUrl ?? expect.fail();
    const { stateDir } = test.config;
    const count = rounds(4, 60);
    let begun = 0;
    for (let round = 0; round < count; round++) {
      const key = randomUUID();
      let ran = false;
      {
        await using child = await startChild(service(stateDir, url, key, false));
        const killed = (async () => {
          const first = child.line().catch(() => 'ended');
          // From "while it starts" to "after the answer".
          const until = new Promise<void>((resolve) => setTimeout(resolve, (round * 97) % 120));
          if (round % 2) await first;
          await until;
          await child.kill('SIGKILL');
          return await first;
        })();
        ran = (await killed) === 'in run';
      }
      await using audit = await openAudit(stateDir, test.database, keptLog());
      const fleet = new ScriptedFleet();
      await reconcile(audit, fleet);
      expect(await audit.openIntents()).toEqual([]);
      expect(await audit.unanswered()).toEqual([]);
      const context = actingContext({ audit, fleet, viewer: viewer(alice), members: [alice] });
      const { rows } = await test.database.pool.query(
        'select 1 from idempotency_keys where key = $1',
        [key],
      );
      // What ran had its intent; what had its intent is not done again.
      if (ran) expect(rows).toHaveLength(1);
      const again = await restartTmuxServer(context, input(key));
      expect(fleet.ran).toHaveLength(rows.length === 0 ? 1 : 0);
      expect(['RestartTmuxServerPayload', 'OutcomeUnknownError']).toContain(again.__typename);
      begun++;
    }
    const { rows } = await test.database.pool.query(
      `select count(*) filter (where phase = 'INTENT')::int as intents,
              count(*) filter (where phase = 'OUTCOME')::int as outcomes from audit_events`,
    );
    expect(rows).toEqual([{ intents: begun, outcomes: begun }]);
    console.log(`${count} kills of the service within an act`);
    const found = await verify(
      journalRows(join(stateDir, 'audit/journal.jsonl')),
      await readChainKeys(stateDir),
    );
    expect(found.findings).toEqual([]);
  });
});

describe('a database that', () => {
  async function startActing() {
    await using parts = new AsyncDisposableStack();
    const test = parts.use(await openTestDatabase('server'));
    const audit = parts.use(await openAudit(test.config.stateDir, test.database, keptLog()));
    const running = new AbortController();
    parts.defer(() => running.abort());
    const fleet = new ScriptedFleet();
    const context = actingContext({ audit, fleet, viewer: viewer(alice), members: [alice] });
    const opened = parts.move();
    return {
      ...{ test, audit, signal: running.signal, fleet },
      act: (key: string) => restartTmuxServer(context, input(key)),
      /** Makes it an older copy, without any row; done when they are back from the journal. */
      async setBack() {
        const restored = audit.restored.wait();
        await test.database.pool.query('delete from idempotency_keys');
        await test.tamper('delete from audit_events');
        await test.database.pool.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
        );
        await restored;
      },
      [Symbol.asyncDispose]: () => opened.disposeAsync(),
    };
  }
  const unknown = {
    __typename: 'OutcomeUnknownError',
    message: expect.stringContaining('outcome (SUCCEEDED) is on record'),
  };

  it('came back as an older copy: a key of before does not act again, and is answered', async () => {
    await using acting = await startActing();
    void answerRestored(acting.audit, keptLog(), acting.signal);
    const key = randomUUID();
    await acting.act(key);
    await acting.setBack();
    expect(await acting.act(key)).toMatchObject(unknown);
    expect(acting.fleet.ran).toHaveLength(1);
  });

  it('came back as an older copy while answers were looked for: its keys are answered too', async () => {
    await using acting = await startActing();
    const { audit, signal, fleet } = acting;
    const key = randomUUID();
    await acting.act(key);
    let isBack = false;
    const unanswered = async () => {
      const found = await audit.unanswered();
      if (!isBack) await acting.setBack();
      isBack = true;
      return found;
    };
    const answer = audit.answer.bind(audit);
    void answerRestored({ restored: audit.restored, unanswered, answer }, keptLog(), signal);
    await eventually(() => isBack, 'the older copy, within the look');
    expect(await acting.act(key)).toMatchObject(unknown);
    expect(fleet.ran).toHaveLength(1);
  });

  it('stays away is told of once, not at every try', async () => {
    const log = keptLog();
    const running = new AbortController();
    const restored = new Bell();
    const waiting: number[] = [];
    const unanswered = () => {
      if (waiting.push(restored.waiting) === 3) running.abort();
      return Promise.reject(new Error('away'));
    };
    const answer = () => Promise.resolve();
    const table = { restored, unanswered, answer };
    const hurried = {
      ...systemClock,
      after: (_: number, ring: () => void) => systemClock.after(0, ring),
    };
    await answerRestored(table, log, running.signal, hurried);
    expect(log.lines.filter((line) => line.includes('repeated calls'))).toHaveLength(1);
    expect(waiting).toEqual([1, 1, 1]);
  });
});
