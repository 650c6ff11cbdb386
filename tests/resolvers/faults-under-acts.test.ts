import { randomUUID } from 'node:crypto';
import { appendFile, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { chainFiles, inspect } from '../../src/audit/inspection.ts';
import { journalRows, rowsAmong } from '../../src/audit/sources.ts';
import { Actors, lostAmong, type Told } from '../support/actors.ts';
import { type Held, heldBy, moreThan } from '../support/held.ts';
import { openTestDatabase } from '../support/postgres.ts';
import { scratchDirectory } from '../support/scratch.ts';
import {
  processesIn,
  type ServiceProcess,
  startServiceProcess,
} from '../support/service-process.ts';
import { rounds } from '../support/tier.ts';
import { eventually, startTmux } from '../support/tmux-server.ts';

/**
 * What befalls a whole service while 16 actors restart panes, each that of a tmux server of its own and
 * without pause: another one is started on its state directory, it is killed and its journal left with
 * a torn last line, it is told to stop with 200 streams open. Whatever was acknowledged is on record,
 * what was begun is closed, and nothing is left: no process, no connection, no socket. What the service
 * holds after each fault it held before.
 */
const actors = 16;
const streams = 200;
/** The ten of its pool, the one that writes the record and the one that listens. */
const connectionsAtMost = 12;
const restart = `mutation($input: RestartPaneInput!) { restartPane(input: $input) {
  __typename ... on RestartPanePayload { recorded auditEvent { operationId } } ... on UserError { code } } }`;

it('a second instance, a torn journal and a stop with 200 streams, while 16 actors act: nothing is lost and nothing is left', {
  timeout: rounds(300_000, 1_800_000),
}, async () => {
  await using folder = await scratchDirectory();
  await using test = await openTestDatabase('server');
  const stateDir = join(folder.path, 'state');
  const journal = join(stateDir, 'audit/journal.jsonl');
  await using servers = new AsyncDisposableStack();
  for (let number = 0; number < actors; number += 1)
    servers.use(await startTmux({ directory: folder.path, name: `t${number}` }));
  const environment = {
    DATABASE_URL: test.config.databaseUrl ?? expect.fail(),
    MUXWARDEN_LISTING_INTERVAL_MS: '500',
  };
  const start = () => startServiceProcess({ folder: folder.path, environment });
  const acknowledged: string[] = [];
  const connections = async () => {
    const { rows } = await test.database.pool.query<{ open: number }>(
      'select count(*)::int as open from pg_stat_activity where datname = current_database()',
    );
    return rows[0]?.open ?? expect.fail();
  };
  // Those of the test itself, none of which it opens later.
  await Promise.all(Array.from({ length: 10 }, connections));
  const own = await connections();

  const acting = async (service: ServiceProcess) => {
    const ids = await eventually(async () => {
      type Panes = { readonly panes: { readonly nodes: readonly { readonly id: string }[] } };
      const { data } = await service.query<Panes>('{ panes(first: 100) { nodes { id } } }');
      return data?.panes.nodes.length === actors ? data.panes.nodes : undefined;
    }, 'its panes are listed');
    return new Actors(
      ids.map(
        ({ id }) =>
          () =>
            act(service, id),
      ),
    );
  };
  const act = async (service: ServiceProcess, paneId: string): Promise<Told> => {
    const began = performance.now();
    const input = { paneId, idempotencyKey: randomUUID() };
    const answer = await service
      .query<{ restartPane: Record<string, unknown> }>(restart, { input })
      // Cut off with the service: what came of it is for the record to say.
      .catch(() => undefined);
    const it = answer?.data?.restartPane as
      | { __typename: string; code?: string; auditEvent?: { operationId: string } | null }
      | undefined;
    const operationId = it?.auditEvent?.operationId;
    if (operationId !== undefined) acknowledged.push(operationId);
    // Whoever is told so asks again a moment later.
    if (it === undefined) await new Promise((resolve) => setTimeout(resolve, 50));
    return {
      kind: it?.code ?? it?.__typename ?? 'cut',
      operationId,
      ms: performance.now() - began,
    };
  };
  const many = (under: Actors) => {
    const before = acknowledged.length;
    return eventually(
      () => under.told.length > 0 && acknowledged.length >= before + actors / 2,
      'acts go on',
      60_000,
    );
  };
  const openIntents = async () => {
    const open = new Set<string>();
    for await (const { phase, id, intentId } of rowsAmong(journalRows(journal)))
      if (phase === 'INTENT') open.add(id);
      else if (intentId !== null && !open.delete(intentId)) throw new Error('closed twice');
    return open.size;
  };
  /** Whose streams are all open. */
  const followers = async (service: ServiceProcess, signal?: AbortSignal) => {
    let open = 0;
    const ended = Array.from({ length: streams }, async () => {
      const query = 'subscription { listingChanged { __typename } }';
      let isOpen = false;
      for await (const _ of service.subscribe(query, {}, signal)) {
        if (!isOpen) open += 1;
        isOpen = true;
      }
      return 'complete';
    });
    await eventually(() => open >= streams, 'all streams are open');
    return ended;
  };
  const expectNothingLeft = async () => {
    const isServer = ({ name }: { readonly name: string }) => name === 'tmux: server';
    await eventually(
      async () => (await processesIn(folder.path)).every(isServer),
      'no process of ours is left',
    );
    await eventually(async () => (await connections()) <= own, 'no connection of ours is left');
    expect(await readdir(stateDir)).not.toContain('service.json');
  };
  /** What it holds while its pool is full: an idle connection is kept for 10 s, so those of it are as many as were asked for last. */
  const heldWithAll = (service: ServiceProcess) =>
    eventually(async () => {
      const read = () => service.query('{ auditEvents(first: 1) { nodes { id } } }');
      await Promise.all(Array.from({ length: 60 }, read));
      const held = await heldBy(service, folder.path);
      return (held['database connection'] ?? 0) >= connectionsAtMost ? held : undefined;
    }, 'its pool is full');
  let before: Held = {};
  /** Once no act is under way. */
  const expectNothingMore = async (service: ServiceProcess, fault: string) => {
    const now = () => heldWithAll(service);
    await expect.poll(async () => moreThan(before, await now()), { message: fault }).toEqual({});
    console.log(
      `after ${fault}: held ${JSON.stringify(await now())}, before ${JSON.stringify(before)}, more: 0`,
    );
  };
  for (let round = 0; round < rounds(1, 10); round += 1) {
    {
      await using service = await start();
      const calm = await acting(service);
      await many(calm);
      await calm.stop();
      before = await heldWithAll(service);
      const under = await acting(service);
      await many(under);
      await Promise.all([expect(start()).rejects.toThrow(/is in use by/), many(under)]);
      await under.stop();
      await expectNothingMore(service, 'a second instance');
      const last = await acting(service);
      await many(last);
      service.kill('SIGKILL');
      await service.ended;
      await last.stop();
    }
    await appendFile(journal, (await readFile(journal)).subarray(0, 300));
    await using service = await start();
    expect((await readdir(join(stateDir, 'audit'))).join()).toMatch(/torn-/);
    expect(await openIntents()).toBe(0);
    const mended = await acting(service);
    await many(mended);
    await mended.stop();
    await expectNothingMore(service, 'a kill and a torn journal');
    const under = await acting(service);
    const leaving = new AbortController();
    const left = await followers(service, leaving.signal);
    await many(under);
    leaving.abort();
    await Promise.allSettled(left);
    await under.stop();
    await expectNothingMore(service, `${streams} streams that were cut`);
    const atTheEnd = await acting(service);
    const ended = await followers(service);
    await many(atTheEnd);
    service.kill('SIGTERM');
    expect(await Promise.all(ended)).toEqual(ended.map(() => 'complete'));
    expect(await service.ended, service.output().slice(-3_000)).toBe(0);
    await atTheEnd.stop();
    expect(await openIntents()).toBe(0);
    await expectNothingLeft();
  }
  const lost = await lostAmong(test.database.pool, acknowledged);
  console.log(`acknowledged acts ${acknowledged.length}, lost ${lost.length}`);
  expect(lost).toEqual([]);
  const [files] = await chainFiles(stateDir);
  const places = await inspect(files ?? expect.fail(), test.database.drizzle);
  expect(places.flatMap(({ findings }) => findings)).toEqual([]);
});
