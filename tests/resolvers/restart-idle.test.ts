import { randomUUID } from 'node:crypto';
import { copyFile, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Audit } from '../../src/audit/audit.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import { ReauthenticationRequiredError } from '../../src/auth/reauthentication.ts';
import { readConfig } from '../../src/config.ts';
import type { Context } from '../../src/resolvers/context.ts';
import { restartIdleOutcomes } from '../../src/resolvers/idle-verdict.ts';
import { reconcile } from '../../src/resolvers/reconcile.ts';
import {
  type RestartIdleTmuxServers,
  restartIdleTmuxServers,
} from '../../src/resolvers/restart-idle.ts';
import type { RestartServerRequest } from '../../src/tmux/acts.ts';
import type { Fleet } from '../../src/tmux/fleet.ts';
import type { ServerView } from '../../src/tmux/model.ts';
import { actingContext, member, satisfied, viewer } from '../support/acting.ts';
import { helperPath } from '../support/acting-member.ts';
import { keptLog } from '../support/audit.ts';
import { type LocalFleetFixture, localFleet } from '../support/local-fleet.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { stopProcess } from '../support/stop-process.ts';
import {
  eventually,
  startTicks,
  type TmuxServer,
  tmuxBinary,
  type Version,
} from '../support/tmux-server.ts';

const idleAfterMs = 1_000;
const old: Version = '3.3a';
const installed: Version = '3.5a';
const newer: Version = '3.8';

/** Each outcome that a test brought about, by real servers. */
const seen = new Set<string>();

describe('restarting all that are idle', () => {
  const alice = member('DEVELOPER', 'alice');
  let test: TestDatabase;
  let audit: Audit;
  let world: LocalFleetFixture;
  let context: Context;
  let began: number;
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
    audit = await openAudit(test.config.stateDir, test.database, keptLog());
  });
  afterAll(async () => {
    await audit[Symbol.asyncDispose]();
    await test[Symbol.asyncDispose]();
    expect([...seen].sort(), 'outcomes that a real server had').toEqual(
      [...restartIdleOutcomes].sort(),
    );
  });
  beforeEach(async () => {
    world = await worldWith();
    context = contextOf();
    began = (await audit.page({ visibleTo: null }, 1)).edges[0]?.event.sequence ?? 0;
  });
  afterEach(() => world[Symbol.asyncDispose]());

  const worldWith = (environment: Readonly<Record<string, string>> = {}) =>
    localFleet({
      memberIds: [alice.id],
      environment: {
        MUXWARDEN_TMUX_BIN: tmuxBinary(installed) ?? 'tmux',
        MUXWARDEN_IDLE_AFTER_MS: String(idleAfterMs),
        ...environment,
      },
    });
  const contextOf = (more: Partial<Parameters<typeof actingContext>[0]> = {}) =>
    actingContext({
      ...{ audit, fleet: world.fleet, viewer: viewer(alice), members: [alice] },
      config: readConfig({ HOME: '/', MUXWARDEN_IDLE_AFTER_MS: String(idleAfterMs) }),
      ...more,
    });
  const input = (change: Partial<RestartIdleTmuxServers> = {}): RestartIdleTmuxServers => ({
    idempotencyKey: randomUUID(),
    dryRun: false,
    targets: undefined,
    reason: null,
    password: undefined,
    grant: undefined,
    restore: 'LAYOUT',
    ...change,
  });
  const rows = async () =>
    (await audit.page({ visibleTo: null }, 100)).edges
      .map(({ event }) => event)
      .filter(({ sequence }) => sequence > began)
      .reverse();
  const said = async () =>
    (await rows())
      .map(({ phase, outcome, code }) => [phase, outcome, code].filter(Boolean).join(' '))
      .sort();

  /** The answer, with what came of each server by the name of its socket. */
  async function restart(asked: RestartIdleTmuxServers, by = context) {
    const answer = await restartIdleTmuxServers(by, asked);
    if (answer.__typename !== 'RestartIdleTmuxServersPayload')
      throw new Error(JSON.stringify(answer));
    const name = (path: string) => path.slice(path.lastIndexOf('/') + 1);
    const outcomes = Object.fromEntries(
      answer.results.map(({ server, outcome }) => [name(server.view.socketPath), outcome]),
    );
    if (!asked.dryRun) for (const outcome of Object.values(outcomes)) seen.add(outcome);
    const result = (of: string) =>
      answer.results.find(({ server }) => name(server.view.socketPath) === of) ?? expect.fail(of);
    return { answer, outcomes, result };
  }

  /** When nobody has written anything in it for long enough. */
  async function quiet(...names: readonly string[]) {
    await eventually(async () => {
      await world.refresh();
      return names.every((name) => world.server(name).idle === true);
    }, `${names} to be idle`);
  }

  const target = (view: ServerView) => ({
    server: view.ref,
    expectedGeneration: view.generation ?? '',
  });

  /** Real acts, and something that happens when each is prepared, or right before it runs. */
  function disturbed(between: {
    readonly prepare?: (request: RestartServerRequest) => Promise<void>;
    readonly run?: (request: RestartServerRequest) => Promise<void>;
  }): Fleet {
    const { fleet } = world;
    return new Proxy<Fleet>(fleet, {
      get(_, name: keyof Fleet) {
        if (name !== 'prepareRestartServer') {
          const value: unknown = Reflect.get(fleet, name);
          return typeof value === 'function' ? value.bind(fleet) : value;
        }
        return async (request: RestartServerRequest) => {
          await between.prepare?.(request);
          const act = await fleet.prepareRestartServer(request);
          return {
            ...act,
            run: async () => {
              await between.run?.(request);
              return await act.run();
            },
            [Symbol.dispose]: () => act[Symbol.dispose](),
          };
        };
      },
    });
  }

  it('names the same outcomes in a dry run as for real, and acts on the idle and outdated one alone', async () => {
    const idle = await world.tmux({ version: old, name: 'idle' });
    const busy = await world.tmux({ version: old, name: 'busy', command: ['exec sleep 1000'] });
    const current = await world.tmux({ version: installed, name: 'current' });
    const ahead = await world.tmux({ version: newer, name: 'newer' });
    const frozen = await world.tmux({ version: old, name: 'frozen' });
    const servers = [idle, busy, current, ahead];
    const frozenPid = await frozen.pid();
    await stopProcess(frozenPid);
    await quiet('idle', 'current', 'newer');
    const pids = await Promise.all(servers.map((each) => each.pid()));
    const panePid = Number(await idle.run('display-message', '-p', '#{pane_pid}'));
    const expected = {
      busy: 'SKIPPED_BUSY',
      current: 'SKIPPED_CURRENT',
      frozen: 'SKIPPED_UNKNOWN',
      idle: 'RESTARTED',
      newer: 'SKIPPED_CURRENT',
    };

    const reauthentication = {
      ...satisfied,
      require: () => Promise.reject(new ReauthenticationRequiredError('the password again')),
    };
    const dry = await restart(input({ dryRun: true }), contextOf({ reauthentication }));
    expect(dry.outcomes).toEqual(expected);
    expect(dry.result('idle')).toMatchObject({
      evidence: expect.arrayContaining(['nobody is attached']),
      wouldEnd: [{ pid: panePid, command: expect.stringMatching(/^(exec )?sh$/) }],
      auditEvent: null,
    });
    expect(dry.result('current').evidence).toEqual(['it runs 3.5a, as is installed']);
    expect(dry.result('newer').evidence).toEqual(['it runs 3.8, newer than the installed 3.5a']);
    expect(dry.result('busy').evidence.join()).toMatch(/%0: sleep runs in the foreground/);
    expect(dry.answer).toMatchObject({ dryRun: true, complete: true, unknownMembers: [] });
    expect(await rows()).toEqual([]);
    expect(await Promise.all(servers.map((each) => each.pid()))).toEqual(pids);

    const real = await restart(input({ reason: 'the new tmux' }));
    expect(real.outcomes).toEqual(expected);
    expect(real.result('idle')).toMatchObject({
      wouldEnd: [{ pid: panePid }],
      survivors: [],
      error: null,
      server: { view: { status: 'RUNNING', version: installed, outdated: false } },
      auditEvent: { outcome: 'SUCCEEDED', statedReason: 'the new tmux' },
    });
    const now = await Promise.all(servers.map((each) => each.pid()));
    expect(now.map((pid, index) => pid === pids[index])).toEqual([false, true, true, true]);
    expect(await startTicks(frozenPid)).toBeDefined();
    expect(await said()).toEqual([
      'INTENT',
      'OUTCOME SKIPPED',
      'OUTCOME SKIPPED',
      'OUTCOME SKIPPED EBUSY',
      'OUTCOME SKIPPED ELISTING',
      'OUTCOME SUCCEEDED',
    ]);
    const operations = new Set((await rows()).map(({ operationId }) => operationId));
    expect([...operations]).toEqual([real.answer.operationId]);
    for (const { server, auditEvent } of real.answer.results)
      expect(auditEvent?.targetLabel).toBe(server.view.socketPath);
  });

  it('gives the first answer again for its key, to parallel calls, later and after a crash, and acts once', async () => {
    const idle = await world.tmux({ version: old, name: 'idle' });
    await world.tmux({ version: installed, name: 'current' });
    await quiet('idle', 'current');
    const one = input();
    const answers = await Promise.all(Array.from({ length: 20 }, () => restart(one)));
    const pid = await idle.pid();
    for (const { answer } of answers) {
      expect(answer.operationId).toBe(answers[0]?.answer.operationId);
      expect(answer.results).toEqual(answers[0]?.answer.results);
    }
    const count = (await rows()).length;
    expect(count).toBe(3);
    expect((await restart(one)).outcomes).toEqual({
      idle: 'RESTARTED',
      current: 'SKIPPED_CURRENT',
    });
    expect((await rows()).length).toBe(count);
    expect(await idle.pid()).toBe(pid);
    expect(await restartIdleTmuxServers(context, { ...one, restore: 'NONE' })).toMatchObject({
      code: 'EIDEMPOTENCY',
    });

    // As a process leaves it that was killed before it could keep the answer.
    await test.database.pool.query('update idempotency_keys set answer = null where key = $1', [
      one.idempotencyKey,
    ]);
    expect(await reconcile(audit, world.fleet)).toBe(0);
    const again = await restart(one);
    expect(again.outcomes).toEqual({ idle: 'RESTARTED', current: 'SKIPPED_CURRENT' });
    expect(again.answer).toMatchObject({ complete: false });
    expect(again.result('idle').auditEvent?.outcome).toBe('SUCCEEDED');
    expect(await idle.pid()).toBe(pid);
  });

  it('restarts named targets only, each in its generation; one that changed or became busy is skipped', async () => {
    const first = await world.tmux({ version: old, name: 'first' });
    const second = await world.tmux({ version: old, name: 'second' });
    const third = await world.tmux({ version: old, name: 'third' });
    await quiet('first', 'second', 'third');
    const targets = ['first', 'second'].map((name) => target(world.server(name)));
    await first.end();
    await world.tmux({ version: old, name: 'first' });
    await second.run('send-keys', '-t', 'main', 'sleep 1000', 'Enter');
    await eventually(async () => {
      await world.refresh();
      return world.server('second').idle === false;
    }, 'the second to be busy');
    const pids = await Promise.all([second, third].map((each) => each.pid()));
    const { outcomes, result } = await restart(input({ targets }));
    expect(outcomes).toEqual({ first: 'SKIPPED_CHANGED', second: 'SKIPPED_BUSY' });
    expect(result('second').evidence.join()).toMatch(/sleep/);
    expect(await Promise.all([second, third].map((each) => each.pid()))).toEqual(pids);
    expect(await said()).toEqual(['OUTCOME SKIPPED EBUSY', 'OUTCOME SKIPPED ESTALE']);
  });

  it('looks again inside each lock: busy, another life or frozen by then is skipped', async () => {
    const tmux = new Map<string, TmuxServer>();
    for (const name of ['busied', 'replaced', 'frozen', 'fine'])
      tmux.set(name, await world.tmux({ version: old, name }));
    await quiet(...tmux.keys());
    const pids = new Map(
      await Promise.all([...tmux].map(async ([name, each]) => [name, await each.pid()] as const)),
    );
    const nameOf = ({ server }: RestartServerRequest) =>
      Buffer.from(server.pathHex, 'hex').toString().split('/').at(-1) ?? '';
    const fleet = disturbed({
      async prepare(request) {
        const name = nameOf(request);
        const server = tmux.get(name) ?? expect.fail(name);
        const pid = pids.get(name) ?? expect.fail(name);
        if (name === 'busied') await server.run('respawn-pane', '-k', '-t', 'main', 'exec sleep 9');
        if (name === 'frozen') await stopProcess(pid);
        if (name === 'replaced') {
          await server.end();
          await world.tmux({ version: old, name });
        }
      },
    });
    const { outcomes } = await restart(input(), contextOf({ fleet }));
    expect(outcomes).toEqual({
      busied: 'SKIPPED_BUSY',
      replaced: 'SKIPPED_CHANGED',
      frozen: 'SKIPPED_UNKNOWN',
      fine: 'RESTARTED',
    });
    expect(await tmux.get('busied')?.pid()).toBe(pids.get('busied'));
    expect(await startTicks(pids.get('frozen') ?? 0)).toBeDefined();
    expect(await said()).toEqual([
      'INTENT',
      'OUTCOME SKIPPED EBUSY',
      'OUTCOME SKIPPED ESTALE',
      'OUTCOME SKIPPED ETMUXSTUCK',
      'OUTCOME SUCCEEDED',
    ]);
  });

  it('tells of each what came of it, and one that goes wrong stops no other', async () => {
    await world[Symbol.asyncDispose]();
    const bin = join(test.config.stateDir, 'tmux-to-be');
    await copyFile(tmuxBinary(installed) ?? expect.fail(), bin);
    const marker = join(test.config.stateDir, 'hang');
    const helper = join(test.config.stateDir, 'helper');
    // The real helper, but that a start hangs up while the marker is there.
    await writeFile(
      helper,
      `#!/bin/sh\n[ "$1" = start ] && [ -e '${marker}' ] && exit 0\nexec '${helperPath}' "$@"\n`,
      { mode: 0o755 },
    );
    world = await worldWith({ MUXWARDEN_TMUX_BIN: bin, MUXWARDEN_HELPER: helper });
    const names = ['fails', 'fine', 'stuck', 'unseen'];
    const servers = [];
    for (const name of names) servers.push(await world.tmux({ version: old, name }));
    await quiet(...names);
    const pids = await Promise.all(servers.map((each) => each.pid()));
    const good = await readFile(bin);
    // One after the other, for what disturbs one must not disturb the next.
    for (const [index, name] of names.entries()) {
      const fleet = disturbed({
        async run() {
          if (name === 'stuck') await stopProcess(pids[index] ?? expect.fail());
          if (name === 'fails') await writeFile(bin, '#!/bin/sh\nexit 1\n');
          if (name === 'unseen') {
            await writeFile(marker, '');
            // The directory can't be looked at either, so nobody knows what is there now.
            await rename(world.directory, `${world.directory}-aside`);
            await writeFile(world.directory, '');
          }
        },
      });
      const targets = [target(world.server(name))];
      const { outcomes, result } = await restart(input({ targets }), contextOf({ fleet }));
      if (name === 'unseen') {
        await rm(world.directory);
        await rename(`${world.directory}-aside`, world.directory);
      }
      if (name === 'fails') {
        await writeFile(`${bin}.new`, good, { mode: 0o755 });
        await rename(`${bin}.new`, bin);
        expect(result(name).notRestored[0]?.what).toBe('everything');
      }
      if (name === 'stuck')
        expect(result(name).error).toMatchObject({ code: 'ETMUXSTUCK', pid: pids[index] });
      const expected = {
        fails: 'FAILED',
        fine: 'RESTARTED',
        stuck: 'STUCK',
        unseen: 'OUTCOME_UNKNOWN',
      };
      expect(outcomes).toEqual({ [name]: Reflect.get(expected, name) });
    }
    process.kill(pids[2] ?? expect.fail(), 'SIGCONT');
  });

  it('needs the password for the real run, and names nobody who may not be acted on', async () => {
    const bob = member('DEVELOPER', 'bob');
    const idle = await world.tmux({ version: old, name: 'idle' });
    await quiet('idle');
    const pid = await idle.pid();
    const reauthentication = {
      ...satisfied,
      require: () => Promise.reject(new ReauthenticationRequiredError('the password again')),
    };
    expect(await restartIdleTmuxServers(contextOf({ reauthentication }), input())).toMatchObject({
      __typename: 'ReauthenticationRequiredError',
    });
    const stranger = contextOf({ viewer: viewer(bob), members: [alice, bob] });
    const targets = [target(world.server('idle'))];
    expect(await restartIdleTmuxServers(stranger, input({ targets }))).toMatchObject({
      code: 'ENOTFOUND',
    });
    expect((await restart(input({ dryRun: true }), stranger)).outcomes).toEqual({});
    const reader = contextOf({ viewer: viewer(alice, { scopes: new Set(['READ']) }) });
    await expect(restartIdleTmuxServers(reader, input())).rejects.toMatchObject({
      code: 'FORBIDDEN',
    });
    expect(await said()).toEqual([
      'OUTCOME DENIED',
      'OUTCOME DENIED ENOTFOUND',
      'OUTCOME DENIED EREAUTH',
    ]);
    expect(await idle.pid()).toBe(pid);
  });

  it('begins none while the service drains, and says so of each', async () => {
    const idle = await world.tmux({ version: old, name: 'idle' });
    await quiet('idle');
    const pid = await idle.pid();
    const { outcomes, result } = await restart(
      input(),
      contextOf({ draining: AbortSignal.abort() }),
    );
    expect(outcomes).toEqual({ idle: 'SKIPPED_UNKNOWN' });
    expect(result('idle').evidence).toEqual(['it was not begun, for the service is stopping']);
    expect(await idle.pid()).toBe(pid);
  });
});
