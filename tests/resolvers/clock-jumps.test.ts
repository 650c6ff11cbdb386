import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { chainFiles, inspect } from '../../src/audit/inspection.ts';
import { connect } from '../support/graphql-over-http.ts';
import { lacks } from '../support/needs.ts';
import { library } from '../support/patched-tmux.ts';
import { openTestDatabase } from '../support/postgres.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { startServiceProcess } from '../support/service-process.ts';
import { rounds } from '../support/tier.ts';
import { eventually, startTmux } from '../support/tmux-server.ts';

const day = 86_400;
const jumps = [0, day, -2 * day, 30, -3_600, 400 * day, 0];

it.skipIf(lacks('gcc'))(
  'a wall clock that jumps by days costs no act, no row, no order and no fresh listing',
  { timeout: 300_000 },
  async () => {
    await using folder = await scratchDirectory();
    await using test = await openTestDatabase('server');
    await using tmux = await startTmux({ directory: folder.path });
    const clock = join(folder.path, 'clock');
    const set = async (seconds: number) => {
      const offset = Buffer.alloc(8);
      offset.writeBigInt64LE(BigInt(seconds));
      // In place, for the page is what the service looks at.
      await writeFile(clock, offset, { flag: 'r+' }).catch(() => writeFile(clock, offset));
    };
    await set(0);
    const preloaded = await library(folder.path, 'wall-clock', {});
    const start = () =>
      startServiceProcess({
        folder: folder.path,
        environment: {
          DATABASE_URL: test.config.databaseUrl ?? expect.fail(),
          MUXWARDEN_LISTING_INTERVAL_MS: '200',
          MUXWARDEN_TEST_CLOCK: clock,
          LD_PRELOAD: preloaded,
        },
      });
    await using service = await start();
    const followed: number[] = [];
    const times: number[] = [];
    const stop = new AbortController();
    const following = (async () => {
      type Added = {
        readonly auditEventAdded: { readonly auditEvent: { sequence: number; at: string } };
      };
      const query = 'subscription { auditEventAdded { auditEvent { sequence at } } }';
      for await (const { auditEventAdded } of service.subscribe<Added>(query, {}, stop.signal)) {
        followed.push(auditEventAdded.auditEvent.sequence);
        times.push(Date.parse(auditEventAdded.auditEvent.at));
      }
    })().catch((error: unknown) => {
      if (!stop.signal.aborted) throw error;
    });
    type Listed = {
      readonly tmuxServers: {
        readonly nodes: readonly {
          readonly listing: { readonly state: string };
          readonly sessions: readonly { readonly name: string }[] | null;
        }[];
      };
      readonly panes: { readonly nodes: readonly { readonly id: string }[] };
    };
    /** The pane, once the listing has what happened in tmux since. */
    const listed = async (name: string) => {
      await tmux.run('rename-session', '-t', '$0', name);
      return await eventually(async () => {
        const look =
          '{ tmuxServers { nodes { listing { state } sessions { name } } } panes { nodes { id } } }';
        const { data } = await service.query<Listed>(look);
        // The other files of the folder are no sockets, and shown as UNKNOWN.
        const server = data?.tmuxServers.nodes.find(({ sessions }) => sessions !== null);
        const isThere = server?.listing.state === 'FRESH' && server.sessions?.[0]?.name === name;
        return isThere ? data?.panes.nodes[0]?.id : undefined;
      }, 'a fresh listing');
    };
    const act = async (paneId: string, idempotencyKey: string) => {
      const { data, errors } = await service.query<{
        restartPane: { recorded?: boolean; auditEvent?: { sequence: number; operationId: string } };
      }>(
        `mutation($input: RestartPaneInput!) { restartPane(input: $input) {
          ... on RestartPanePayload { recorded auditEvent { sequence operationId } } ... on UserError { code message } } }`,
        { input: { paneId, idempotencyKey } },
      );
      expect(errors).toEqual([]);
      expect(data?.restartPane).toMatchObject({ recorded: true });
      return data?.restartPane.auditEvent ?? expect.fail();
    };
    const sequences: number[] = [];
    for (let round = 0; round < rounds(1, 20); round += 1) {
      for (const jump of jumps) {
        await set(jump);
        const id = await listed(`after-${sequences.length}`);
        const key = randomUUID();
        const done = await act(id, key);
        // The same call once more is the same act, not another.
        expect(await act(id, key)).toEqual(done);
        sequences.push(done.sequence);
      }
    }
    expect(sequences).toEqual([...sequences].sort((one, other) => one - other));
    await eventually(() => followed.includes(sequences.at(-1) ?? 0), 'the last row is followed');
    stop.abort();
    await following;
    const { data: who } = await service.query<{ viewer: { member: { id: string } } }>(
      '{ viewer { member { id } } }',
    );
    const makeKey = async (days: number) => {
      const { data } = await service.query<{ createApiKey: { key: string } }>(
        `mutation($input: CreateApiKeyInput!) { createApiKey(input: $input) {
          ... on CreateApiKeyPayload { key } ... on UserError { message } } }`,
        {
          input: {
            idempotencyKey: randomUUID(),
            memberId: who?.viewer.member.id,
            name: 'ends',
            scopes: ['READ'],
            expiresAt: new Date(Date.now() + days * day * 1_000).toISOString(),
          },
        },
      );
      return data?.createApiKey.key ?? expect.fail();
    };
    const works = async ({ url }: { readonly url: string }, key: string) =>
      (await connect(url, key).query('{ viewer { role } }')).data !== null;
    const key = await makeKey(1);
    expect(await works(service, key)).toBe(true);
    await set(2 * day);
    expect(await works(service, key)).toBe(false);
    // A new key has the accounts looked at.
    const other = await makeKey(9);
    // Its day has not gone by: the clock was ahead, and ended nothing for good.
    await set(0);
    expect([await works(service, key), await works(service, other)]).toEqual([true, true]);
    await service[Symbol.asyncDispose]();
    // Who starts by that clock can't know better.
    await set(2 * day);
    await using next = await start();
    expect([await works(next, key), await works(next, other)]).toEqual([false, true]);
    await eventually(async () => {
      const { rows } = await test.database.pool.query(
        'select 1 from api_keys where ended_at is not null',
      );
      return rows.length === 1;
    }, 'its end is stored');
    await set(0);
    expect([await works(next, key), await works(next, other)]).toEqual([false, true]);
    // Every row from the first one on, once, in order; and the clock did jump.
    expect(followed).toEqual(followed.map((_, index) => (followed[0] ?? 0) + index));
    expect(Math.max(...times) - Math.min(...times)).toBeGreaterThan(400 * day * 1_000);
    const [files] = await chainFiles(join(folder.path, 'state'));
    const places = await inspect(files ?? expect.fail(), test.database.drizzle);
    expect(places.flatMap(({ findings }) => findings)).toEqual([]);
    console.log(`${sequences.length} jumps; acknowledged acts ${sequences.length}, lost 0`);
  },
);
