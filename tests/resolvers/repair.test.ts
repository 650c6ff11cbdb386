import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Audit } from '../../src/audit/audit.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import { ReauthenticationRequiredError } from '../../src/auth/reauthentication.ts';
import type { Context } from '../../src/resolvers/context.ts';
import { type RepairTmuxServer, repairTmuxServer } from '../../src/resolvers/repair-server.ts';
import type { PaneRef, ServerView } from '../../src/tmux/model.ts';
import { actingContext, member, satisfied, viewer } from '../support/acting.ts';
import { keptLog } from '../support/audit.ts';
import { type LocalFleetFixture, localFleet } from '../support/local-fleet.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { stopProcess } from '../support/stop-process.ts';
import { eventually, type TmuxServer } from '../support/tmux-server.ts';

/** The audited repair on real tmux, through the real helper, with the real record. */
describe('repairing what is real', () => {
  const alice = member('DEVELOPER', 'alice');
  let test: TestDatabase;
  let audit: Audit;
  let world: LocalFleetFixture;
  let tmux: TmuxServer;
  let context: Context;
  let server: ServerView;
  let began: number;
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
    audit = await openAudit(test.config.stateDir, test.database, keptLog());
  });
  afterAll(async () => {
    await audit[Symbol.asyncDispose]();
    await test[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    world = await localFleet({ memberIds: [alice.id] });
    tmux = await world.tmux();
    await world.refresh();
    server = world.server();
    context = contextOf();
    began = (await audit.page({ visibleTo: null }, 1)).edges[0]?.event.sequence ?? 0;
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const contextOf = (more: Partial<Parameters<typeof actingContext>[0]> = {}) =>
    actingContext({
      ...{ audit, fleet: world.fleet, viewer: viewer(alice), members: [alice] },
      ...more,
    });
  const rows = async () =>
    (await audit.page({ visibleTo: null }, 100)).edges
      .map(({ event }) => event)
      .filter(({ sequence }) => sequence > began)
      .reverse();
  const said = async () =>
    (await rows()).map(({ phase, outcome, code }) =>
      [phase, outcome, code].filter(Boolean).join(' '),
    );
  const input = (change: Partial<RepairTmuxServer>): RepairTmuxServer => ({
    server: server.ref,
    expectedGeneration: server.generation ?? '',
    idempotencyKey: randomUUID(),
    reason: null,
    password: undefined,
    grant: undefined,
    repair: 'RECREATE_SOCKET',
    ...change,
  });

  it('brings a lost socket back for 50 parallel calls with one key: one pair of rows, ids stay valid', async () => {
    const pane: PaneRef = { ...server.ref, generation: server.generation ?? '', pane: 0 };
    await rm(tmux.socket);
    await world.refresh();
    expect(world.server()).toMatchObject({ status: 'RUNNING', reason: 'SOCKET_LOST' });
    const one = input({ reason: 'cleaned away' });
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => repairTmuxServer(context, one)),
    );
    const { pid } = server;
    for (const answer of answers)
      expect(answer).toMatchObject({
        __typename: 'RepairTmuxServerPayload',
        server: { view: { status: 'RUNNING', reason: null, pid, generation: server.generation } },
        auditEvent: { outcome: 'SUCCEEDED', before: { pid }, after: { pid, sessionCount: 1 } },
      });
    expect(await said()).toEqual(['INTENT', 'OUTCOME SUCCEEDED']);
    expect((await rows())[0]).toMatchObject({
      action: 'REPAIR_TMUX_SERVER',
      statedReason: 'cleaned away',
      facts: { repair: 'RECREATE_SOCKET', expectedGeneration: server.generation },
    });
    expect(await tmux.pid()).toBe(pid);
    expect((await world.fleet.capture(pane, 0)).columns).toBe(80);
    // The same key with another repair is another input; a new key finds nothing to repair.
    expect(await repairTmuxServer(context, { ...one, repair: 'CONTINUE_STOPPED' })).toMatchObject({
      code: 'EIDEMPOTENCY',
    });
    expect(await repairTmuxServer(context, input({}))).toMatchObject({
      __typename: 'UnsupportedError',
      message: expect.stringMatching(/nothing to repair/),
    });
    expect((await said()).slice(2)).toEqual([
      'OUTCOME FAILED EIDEMPOTENCY',
      'OUTCOME FAILED EUNSUPPORTED',
    ]);
  });

  it('lets a stopped server run, and the listing says so at once', async () => {
    const pid = server.pid ?? expect.fail();
    await stopProcess(pid);
    await eventually(async () => {
      await world.refresh();
      return world.server().status === 'STOPPED';
    }, 'it is stopped');
    const answer = await repairTmuxServer(context, input({ repair: 'CONTINUE_STOPPED' }));
    expect(answer).toMatchObject({
      __typename: 'RepairTmuxServerPayload',
      server: { view: { pid, generation: server.generation } },
      auditEvent: { before: { status: 'STOPPED' } },
    });
    expect(world.server().status).not.toBe('STOPPED');
    expect(await tmux.pid()).toBe(pid);
  });

  it('without the password is DENIED on record before anything is looked at', async () => {
    await rm(tmux.socket);
    const reauthentication = {
      ...satisfied,
      require: () => Promise.reject(new ReauthenticationRequiredError('the password again')),
    };
    const answer = await repairTmuxServer(contextOf({ reauthentication }), input({}));
    expect(answer).toMatchObject({ __typename: 'ReauthenticationRequiredError' });
    expect(await said()).toEqual(['OUTCOME DENIED EREAUTH']);
    await world.refresh();
    expect(world.server().reason).toBe('SOCKET_LOST');
  });

  it('of another member’s server is not found, and on record', async () => {
    const bob = member('DEVELOPER', 'bob');
    const stranger = contextOf({ viewer: viewer(bob), members: [alice, bob] });
    expect(await repairTmuxServer(stranger, input({}))).toMatchObject({ code: 'ENOTFOUND' });
    expect(await said()).toEqual(['OUTCOME DENIED ENOTFOUND']);
  });
});
