import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Audit } from '../../src/audit/audit.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import type { AuditEvent } from '../../src/audit/record.ts';
import type { Context } from '../../src/resolvers/context.ts';
import { reconcile } from '../../src/resolvers/reconcile.ts';
import { restartPane } from '../../src/resolvers/restart-pane.ts';
import { type RestartTmuxServer, restartTmuxServer } from '../../src/resolvers/restart-server.ts';
import type { PaneRef, ServerView } from '../../src/tmux/model.ts';
import { actingContext, member, serverRestart, viewer } from '../support/acting.ts';
import { intent, keptLog } from '../support/audit.ts';
import { type LocalFleetFixture, localFleet } from '../support/local-fleet.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { stopProcess } from '../support/stop-process.ts';
import { rounds } from '../support/tier.ts';
import { eventually, startTicks, type TmuxServer } from '../support/tmux-server.ts';

/** The audited acts on real tmux, through the real helper, with the real record. */
describe('restarting what is real', () => {
  const alice = member('DEVELOPER', 'alice');
  let test: TestDatabase;
  let audit: Audit;
  let world: LocalFleetFixture;
  let tmux: TmuxServer;
  let context: Context;
  let server: ServerView;
  let began: number;
  beforeAll(async () => {
    test = await openTestDatabase('server');
    audit = await openAudit(test.config.stateDir, test.database, keptLog());
  });
  afterAll(async () => {
    await audit[Symbol.asyncDispose]();
    await test[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    const environment = { MUXWARDEN_IDLE_AFTER_MS: '1000' };
    world = await localFleet({ memberIds: [alice.id], environment });
    tmux = await world.tmux();
    await world.refresh();
    server = world.server();
    const { fleet } = world;
    context = actingContext({ audit, fleet, viewer: viewer(alice), members: [alice] });
    began = (await audit.page({ visibleTo: null }, 1)).edges[0]?.event.sequence ?? 0;
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const recordedRows = async (): Promise<readonly AuditEvent[]> =>
    (await audit.page({ visibleTo: null }, 200)).edges
      .map(({ event }) => event)
      .filter(({ sequence }) => sequence > began)
      .reverse();
  const said = async () =>
    (await recordedRows()).map(({ phase, outcome, code }) =>
      [phase, outcome, code].filter(Boolean).join(' '),
    );
  const input = (change: Partial<RestartTmuxServer> = {}): RestartTmuxServer => ({
    ...serverRestart(alice, randomUUID()),
    server: server.ref,
    expectedGeneration: server.generation ?? '',
    ...change,
  });
  const firstPane = (): PaneRef => {
    const pane = server.sessions?.[0]?.windows[0]?.panes[0]?.pane;
    return {
      memberId: alice.id,
      pathHex: server.ref.pathHex,
      generation: server.generation ?? '',
      pane: pane ?? -1,
    };
  };

  it('50 parallel calls with one key are one restart and one answer, with the server as it is now', async () => {
    const one = input();
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => restartTmuxServer(context, one)),
    );
    const pid = await tmux.pid();
    expect(pid).not.toBe(server.pid);
    for (const answer of answers)
      expect(answer).toMatchObject({
        __typename: 'RestartTmuxServerPayload',
        server: { view: { status: 'RUNNING', pid } },
        auditEvent: { outcome: 'SUCCEEDED', before: { pid: server.pid }, after: { pid } },
      });
    expect(await said()).toEqual(['INTENT', 'OUTCOME SUCCEEDED']);
    expect((await recordedRows())[0]?.before).toMatchObject({ pid: server.pid, sessionCount: 1 });
    // The same generation again, by another key, is stale, and nothing happens.
    expect(await restartTmuxServer(context, input())).toMatchObject({
      code: 'ESTALE',
      expectedGeneration: server.generation,
    });
    expect(await tmux.pid()).toBe(pid);
  });

  it('a pane gets a new process in the same pane; an id of a past life is ESTALE and touches nothing', async () => {
    const pane = firstPane();
    const before = await tmux.run('display-message', '-p', '-t', '%0', '#{pane_pid}');
    const answer = await restartPane(context, { pane, idempotencyKey: 'one', reason: null });
    expect(answer).toMatchObject({ __typename: 'RestartPanePayload', pane });
    expect(await tmux.run('display-message', '-p', '-t', '%0', '#{pane_pid}')).not.toBe(before);
    await restartTmuxServer(context, input());
    const now = await tmux.run('display-message', '-p', '-t', '%0', '#{pane_pid}');
    expect(await restartPane(context, { pane, idempotencyKey: 'two', reason: null })).toMatchObject(
      {
        code: 'ESTALE',
      },
    );
    expect(await tmux.run('display-message', '-p', '-t', '%0', '#{pane_pid}')).toBe(now);
    expect(await said()).toEqual([
      'INTENT',
      'OUTCOME SUCCEEDED',
      'INTENT',
      'OUTCOME SUCCEEDED',
      'OUTCOME FAILED ESTALE',
    ]);
  });

  it('a pane of the generation that is ending, restarted at the same moment, is that one or nobody', async () => {
    const count = rounds(4, 100);
    for (let round = 0; round < count; round++) {
      await world.refresh();
      server = world.server();
      const pane = firstPane();
      began = (await audit.page({ visibleTo: null }, 1)).edges[0]?.event.sequence ?? 0;
      const [restarted, touched] = await Promise.all([
        restartTmuxServer(context, input()),
        (async () => {
          await new Promise((resolve) => setTimeout(resolve, (round * 37) % 150));
          return await restartPane(context, {
            pane,
            idempotencyKey: randomUUID(),
            reason: null,
          });
        })(),
      ]);
      const now = await tmux.run('display-message', '-p', '-t', '%0', '#{pane_pid} #{pid}');
      const paneRow = (await recordedRows()).find(
        ({ action, phase }) => action === 'RESTART_PANE' && phase === 'OUTCOME',
      );
      if (touched.__typename === 'RestartPanePayload') {
        // It reached the old generation before its end.
        expect(paneRow).toMatchObject({ outcome: 'SUCCEEDED', before: { pid: server.pid } });
        expect(restarted).not.toMatchObject({ code: 'ESTALE' });
      } else {
        expect(touched).toMatchObject({ code: expect.stringMatching(/^(ESTALE|EINPROGRESS)$/) });
        expect(paneRow).toMatchObject({ outcome: 'FAILED', intentId: null });
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(await tmux.run('display-message', '-p', '-t', '%0', '#{pane_pid} #{pid}')).toBe(now);
    }
    console.log(`${count} races of a pane's restart with its server's`);
  });

  it('a stopped server is ETMUXSTUCK at once, with its pid, and lives on afterwards', async () => {
    const pid = server.pid ?? expect.fail();
    const started = await startTicks(pid);
    await stopProcess(pid);
    try {
      const answer = await restartTmuxServer(context, input());
      expect(answer).toMatchObject({ code: 'ETMUXSTUCK', pid, status: 'STOPPED' });
      expect(await said()).toEqual(['OUTCOME FAILED ETMUXSTUCK']);
      expect((await recordedRows())[0]?.before).toMatchObject({ pid });
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(await startTicks(pid)).toBe(started);
    expect(await restartTmuxServer(context, input())).toMatchObject({
      __typename: 'RestartTmuxServerPayload',
    });
  });

  it('only if idle: while a program runs it is EBUSY with the reason, and once idle it is done', async () => {
    await tmux.run('send-keys', '-t', '%0', 'sleep 1000', 'Enter');
    const running = () => tmux.run('display-message', '-p', '-t', '%0', '#{pane_current_command}');
    await eventually(async () => (await running()) === 'sleep', 'it sleeps');
    const busy = await restartTmuxServer(context, input({ onlyIfIdle: true }));
    expect(busy).toMatchObject({
      __typename: 'TmuxServerBusyError',
      code: 'EBUSY',
      evidence: expect.arrayContaining(['%0: sleep runs in the foreground']),
    });
    expect(await tmux.pid()).toBe(server.pid);
    expect(await said()).toEqual(['OUTCOME FAILED EBUSY']);
    expect((await recordedRows())[0]).toMatchObject({
      intentId: null,
      message: expect.stringContaining('%0: sleep runs in the foreground'),
    });

    await tmux.run('set-option', '-p', '-t', '%0', '@agent_state', 'working');
    await tmux.run('set-option', '-p', '-t', '%0', '@kept', 'yes');
    await tmux.run('send-keys', '-t', '%0', 'C-c');
    await eventually(async () => {
      await world.refresh();
      return world.server().idle;
    }, 'it is idle');
    expect(await restartTmuxServer(context, input({ onlyIfIdle: true }))).toMatchObject({
      __typename: 'RestartTmuxServerPayload',
    });
    expect((await said()).slice(1)).toEqual(['INTENT', 'OUTCOME SUCCEEDED']);
    expect((await recordedRows())[1]?.facts).toMatchObject({ onlyIfIdle: true });
    // A report is of the program that made it, and that has ended.
    expect(await tmux.run('show-options', '-p', '-t', '%0')).toBe('@kept yes');
  });

  it('without the database nothing is restarted, and reads go on', async () => {
    const database = test.server ?? expect.fail();
    await database.stop();
    const start = performance.now();
    const answer = await restartTmuxServer(context, input());
    expect(answer).toMatchObject({ __typename: 'AuditUnavailableError', code: 'EAUDIT' });
    expect(performance.now() - start).toBeLessThan(5_000);
    expect(await tmux.pid()).toBe(server.pid);
    expect((await world.refresh()).status.state).toBe('FRESH');
    await database.start();
    const again = await eventually(async () => {
      const tried = await restartTmuxServer(context, input());
      return tried.__typename === 'RestartTmuxServerPayload' ? tried : undefined;
    }, 'the record goes on');
    expect(again.auditEvent?.outcome).toBe('SUCCEEDED');
    expect(await tmux.pid()).not.toBe(server.pid);
  });

  it('an intent that was left open is closed with what tmux shows, and nothing is done', async () => {
    const pathHex = server.ref.pathHex;
    const claim = { actorId: alice.id, mutation: 'm', key: 'k', inputHash: Buffer.from('h') };
    const left = await audit.intend(
      intent({
        actorId: alice.id,
        memberId: alice.id,
        facts: { pathHex },
        before: {
          generation: server.generation,
          pid: server.pid,
          version: server.version,
          status: server.status,
          sessionCount: 1,
        },
      }),
      claim,
    );
    expect(await reconcile(audit, world.fleet)).toBe(1);
    const [, outcome] = await recordedRows();
    expect(outcome).toMatchObject({
      outcome: 'UNKNOWN',
      intentId: left.id,
      after: { pid: server.pid, generation: server.generation },
    });
    expect(outcome?.message).toMatch(/the same process/);
    expect(await tmux.pid()).toBe(server.pid);
  });
});
