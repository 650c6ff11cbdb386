import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chainFiles, inspect } from '../../src/audit/inspection.ts';
import { findPostmaster } from '../../src/database/postmaster.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import { type AccountsService, startAccountsServiceOn } from '../support/accounts-service.ts';
import { generation, pathHex, ScriptedFleet } from '../support/acting.ts';
import { Actors, lostAmong, type Told } from '../support/actors.ts';
import { waitedForCoreMs } from '../support/core-wait.ts';
import { lacks } from '../support/needs.ts';
import { type PostgresServer, startPostgresServer } from '../support/postgres.ts';
import { mountSmallDisk, type SmallDisk } from '../support/small-disk.ts';
import { type ThrottlingProxy, throttlingProxy } from '../support/throttling-proxy.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';

/**
 * Faults of database and journal while 16 actors act, each without pause. What they were told, what was done and
 * what is on record are held against each other: nothing acknowledged is lost, nothing is done without
 * its intent or told as refused, and everything goes on by itself when the database is back.
 */
const actors = 16;
const noMount = lacks('root', 'mount');
const restart = `mutation($input: RestartPaneInput!) { restartPane(input: $input) {
  __typename ... on RestartPanePayload { recorded auditEvent { operationId } } ... on UserError { code } } }`;

let disk: SmallDisk | undefined;
let journalDisk: SmallDisk | undefined;
let server: PostgresServer;
let proxy: ThrottlingProxy;
let service: AccountsService<ScriptedFleet>;
let calls: readonly (() => Promise<Told>)[];
let descriptors: number;
const openDescriptors = async () => (await readdir('/proc/self/fd')).length;
beforeAll(async () => {
  descriptors = await openDescriptors();
  disk = noMount ? undefined : await mountSmallDisk(200 << 10);
  journalDisk = noMount ? undefined : await mountSmallDisk(8 << 10);
  server = await startPostgresServer(disk?.path);
  proxy = await throttlingProxy(server.port);
  const behind = {
    ...server,
    createDatabase: async () => proxy.through(await server.createDatabase()),
  };
  const stateDir = journalDisk && { MUXWARDEN_STATE_DIR: join(journalDisk.path, 'state') };
  service = await startAccountsServiceOn(new ScriptedFleet(), 'server', { ...stateDir }, behind);
  calls = await Promise.all(
    Array.from({ length: actors }, async (_, number) => {
      const member = await service.add(`actor-${number}`, 'DEVELOPER');
      const key = await service.key(member);
      const pane = { memberId: member.id, pathHex, generation, pane: 1 };
      const paneId = encodeId({ type: 'TmuxPane', ref: pane });
      return async () => {
        const waited = await waitedForCoreMs('self');
        const began = performance.now();
        const it = await service.ask<{
          readonly __typename: string;
          readonly code?: string;
          readonly auditEvent?: { readonly operationId: string } | null;
        }>(restart, { input: { paneId, idempotencyKey: randomUUID() } }, { key });
        const took = performance.now() - began;
        // Service and actors are one process: what it has waited for a core is nobody's fault here.
        const ms = took - ((await waitedForCoreMs('self')) - waited);
        return { kind: it.code ?? it.__typename, operationId: it.auditEvent?.operationId, ms };
      };
    }),
  );
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await proxy?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
  await disk?.[Symbol.asyncDispose]();
  await journalDisk?.[Symbol.asyncDispose]();
});

function paced(pace: ThrottlingProxy['pace']): void {
  proxy.pace = pace;
}

interface Fault {
  readonly begin: () => Promise<void>;
  readonly end: () => Promise<void>;
  /** Some acts are done all the same. */
  readonly bearable?: true;
  readonly needsMount?: true;
}
const faults: Readonly<Record<string, Fault>> = {
  'PostgreSQL killed': { begin: () => server.signal('SIGKILL'), end: () => server.start() },
  'PostgreSQL frozen': {
    begin: () => server.signal('SIGSTOP'),
    end: () => server.signal('SIGCONT'),
  },
  'PostgreSQL stopped': { begin: () => server.stop(), end: () => server.start() },
  // A commit takes a second or so: word of it may come too late.
  'PostgreSQL slow': {
    begin: async () => paced({ bytes: 65_536, ms: 200 }),
    end: async () => paced(undefined),
    bearable: true,
  },
  'PostgreSQL throttled': {
    begin: async () => paced({ bytes: 50, ms: 100 }),
    end: async () => paced(undefined),
  },
  'the journal’s disk full': {
    begin: async () => await journalDisk?.fill(64 << 10),
    end: async () => await journalDisk?.free(),
    needsMount: true,
  },
  'PostgreSQL’s disk full': {
    needsMount: true,
    async begin() {
      // The database writes meanwhile, and may have taken the last of it.
      await disk
        ?.fill(0)
        .catch((error: NodeJS.ErrnoException) => expect(error.code).toBe('ENOSPC'));
    },
    async end() {
      await disk?.free();
      // On a full disk it may have given up.
      if ((await findPostmaster(server.data)) === undefined) await server.start();
    },
  },
};

describe.each(Object.entries(faults))('%s while 16 actors act', (name, fault) => {
  it.skipIf(fault.needsMount && noMount)(
    'loses nothing that was acknowledged, refuses within 2 s, reads on, and goes on by itself',
    { timeout: 120_000 },
    async () => {
      const reader = `reader-${Object.keys(faults).indexOf(name)}`;
      const admin = { key: await service.key(await service.add(reader, 'ADMIN')) };
      const since = new Set(service.fleet.ran).size;
      const acting = new Actors(calls);
      const { told } = acting;
      const allAct = () => acting.all('RestartPanePayload');
      let reads = 0;
      try {
        const enough = () => allAct() && told.length >= rounds(100, 2_000);
        await eventually(enough, 'all act', 30_000);
        for (let round = 0; round < rounds(1, 10); round += 1) {
          const before = told.length;
          await fault.begin();
          // Twice as many acts as there are actors, or none any more.
          const isOver = () =>
            fault.bearable === undefined
              ? acting.all('EAUDIT')
              : told.length >= before + 2 * actors;
          const reading = (async () => {
            do {
              await service.ask('{ members(first: 20) { nodes { login } } }', {}, admin);
              reads += 1;
            } while (!acting.isStopped && !isOver());
          })();
          await eventually(isOver, 'all feel it', 30_000);
          await reading;
          await fault.end();
          await eventually(allAct, 'all act again', 60_000);
        }
      } finally {
        await acting.stop();
      }
      expect(reads).toBeGreaterThan(0);
      const refused = acting.of('EAUDIT');
      expect(Math.max(0, ...refused.map(({ ms }) => ms))).toBeLessThan(2_500);
      const done = acting.of('RestartPanePayload');
      expect(told.length).toBe(done.length + refused.length);
      // What was done was told as done, and nothing that was told as refused was.
      const ran = service.fleet.ran.slice(since);
      expect(ran).toHaveLength(done.length);
      await eventually(
        async () => (await service.audit.openIntents()).length === 0,
        'all is closed',
        30_000,
      );
      const acknowledged = done.flatMap(({ operationId }) => operationId ?? []);
      const lost = await lostAmong(service.database.database.pool, [...acknowledged, ...ran]);
      console.log(
        `${name}: acknowledged acts ${acknowledged.length}, lost ${lost.length}; ${done.length - acknowledged.length} done with the record to follow, ${refused.length} refused, ${reads} reads meanwhile`,
      );
      expect(lost).toEqual([]);
      const [files] = await chainFiles(service.database.config.stateDir);
      const places = await inspect(files ?? expect.fail(), service.database.database.drizzle);
      expect(places.flatMap(({ findings }) => findings)).toEqual([]);
    },
  );
});

it('leaves no descriptor behind after all of that', async () => {
  await service[Symbol.asyncDispose]();
  await expect.poll(openDescriptors, { timeout: 20_000 }).toBeLessThanOrEqual(descriptors + 5);
});
