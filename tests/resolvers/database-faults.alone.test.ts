import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chainFiles, inspect } from '../../src/audit/inspection.ts';
import { findPostmaster } from '../../src/database/postmaster.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import { type AccountsService, startAccountsServiceOn } from '../support/accounts-service.ts';
import { generation, pathHex, ScriptedFleet } from '../support/acting.ts';
import { lacks } from '../support/needs.ts';
import { type PostgresServer, startPostgresServer } from '../support/postgres.ts';
import { mountSmallDisk, type SmallDisk } from '../support/small-disk.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';

/**
 * Faults of PostgreSQL while 16 actors act, each without pause. What they were told, what was done and
 * what is on record are held against each other: nothing acknowledged is lost, nothing is done without
 * its intent or told as refused, and everything goes on by itself when the database is back.
 */
const actors = 16;
const noMount = lacks('root', 'mount');
const restart = `mutation($input: RestartPaneInput!) { restartPane(input: $input) {
  __typename ... on RestartPanePayload { recorded auditEvent { operationId } } ... on UserError { code } } }`;

interface Told {
  readonly kind: string;
  readonly operationId: string | undefined;
  readonly ms: number;
}

let disk: SmallDisk | undefined;
let server: PostgresServer;
let service: AccountsService<ScriptedFleet>;
let calls: readonly (() => Promise<Told>)[];
let descriptors: number;
const openDescriptors = async () => (await readdir('/proc/self/fd')).length;
beforeAll(async () => {
  descriptors = await openDescriptors();
  disk = noMount ? undefined : await mountSmallDisk(200 << 10);
  server = await startPostgresServer(disk?.path);
  service = await startAccountsServiceOn(new ScriptedFleet(), 'server', {}, server);
  calls = await Promise.all(
    Array.from({ length: actors }, async (_, number) => {
      const member = await service.add(`actor-${number}`, 'DEVELOPER');
      const key = await service.key(member);
      const pane = { memberId: member.id, pathHex, generation, pane: 1 };
      const paneId = encodeId({ type: 'TmuxPane', ref: pane });
      return async () => {
        const began = performance.now();
        const it = await service.ask<{
          readonly __typename: string;
          readonly code?: string;
          readonly auditEvent?: { readonly operationId: string } | null;
        }>(restart, { input: { paneId, idempotencyKey: randomUUID() } }, { key });
        const ms = performance.now() - began;
        return { kind: it.code ?? it.__typename, operationId: it.auditEvent?.operationId, ms };
      };
    }),
  );
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
  await disk?.[Symbol.asyncDispose]();
});

interface Fault {
  readonly begin: () => Promise<void>;
  readonly end: () => Promise<void>;
}
const faults: Readonly<Record<string, Fault>> = {
  killed: { begin: () => server.signal('SIGKILL'), end: () => server.start() },
  frozen: { begin: () => server.signal('SIGSTOP'), end: () => server.signal('SIGCONT') },
  stopped: { begin: () => server.stop(), end: () => server.start() },
  full: {
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

describe.each(Object.entries(faults))('PostgreSQL %s while 16 actors act', (name, fault) => {
  it.skipIf(name === 'full' && noMount)(
    'loses nothing that was acknowledged, refuses within 2 s, reads on, and goes on by itself',
    { timeout: 120_000 },
    async () => {
      const told: Told[] = [];
      const since = new Set(service.fleet.ran).size;
      const stop = new AbortController();
      const latest = new Map<number, string>();
      const acting = calls.map(async (call, actor) => {
        while (!stop.signal.aborted) {
          const one = await call();
          told.push(one);
          latest.set(actor, one.kind);
        }
      });
      const all = (kind: string) => () =>
        [...latest.values()].filter((last) => last === kind).length === actors;
      let reads = 0;
      const admin = { key: await service.key(await service.add(`reader-${name}`, 'ADMIN')) };
      try {
        const enough = () => all('RestartPanePayload')() && told.length >= rounds(100, 2_000);
        await eventually(enough, 'all act', 30_000);
        for (let round = 0; round < rounds(1, 10); round += 1) {
          await fault.begin();
          const reading = (async () => {
            while (latest.size > 0 && !stop.signal.aborted && !all('EAUDIT')()) {
              await service.ask('{ members(first: 20) { nodes { login } } }', {}, admin);
              reads += 1;
            }
          })();
          await eventually(all('EAUDIT'), 'all are refused', 30_000);
          await reading;
          await fault.end();
          await eventually(all('RestartPanePayload'), 'all act again', 60_000);
        }
      } finally {
        stop.abort();
        await Promise.all(acting);
      }
      expect(reads).toBeGreaterThan(0);
      const refused = told.filter(({ kind }) => kind === 'EAUDIT');
      expect(Math.max(...refused.map(({ ms }) => ms))).toBeLessThan(2_500);
      const done = told.filter(({ kind }) => kind === 'RestartPanePayload');
      expect(told.length).toBe(done.length + refused.length);
      // What was done was told as done, and nothing that was told as refused was.
      const ran = service.fleet.ran.slice(since);
      expect(ran).toHaveLength(done.length);
      await eventually(
        async () => (await service.audit.openIntents()).length === 0,
        'all is closed',
        30_000,
      );
      const { rows } = await service.database.database.pool.query<{ id: string; ends: string }>(
        `select operation_id as id, string_agg(coalesce(outcome::text, phase::text), ' ' order by sequence) as ends
         from audit_events group by operation_id`,
      );
      const ends = new Map(rows.map((row) => [row.id, row.ends]));
      const acknowledged = done.flatMap(({ operationId }) => operationId ?? []);
      const lost = [...acknowledged, ...ran].filter(
        (each) => ends.get(each) !== 'INTENT SUCCEEDED',
      );
      console.log(
        `PostgreSQL ${name}: acknowledged acts ${acknowledged.length}, lost ${lost.length}; ${done.length - acknowledged.length} done with the record to follow, ${refused.length} refused, ${reads} reads meanwhile`,
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
