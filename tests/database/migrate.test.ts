import { readdir } from 'node:fs/promises';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { migrate } from '../../src/database/migrate.ts';
import { databaseKinds, openTestDatabase, startPostgresServer } from '../support/postgres.ts';

const root = new URL('../../', import.meta.url).pathname;
const names = (await readdir(`${root}migrations`)).sort();

const row = `insert into audit_events (chain, sequence, id, at, boot_id, monotonic_ms, phase, action,
    operation_id, request_id, key_id, previous, hash)
  values ('c', $1, gen_random_uuid(), now(), 'b', 1, 'INTENT', 'RESTART_PANE', gen_random_uuid(), 'r',
    'k', '', '')`;

describe.each(databaseKinds)('the migrations (%s)', (kind) => {
  it('are applied once, and then there is nothing to do', async () => {
    await using test = await openTestDatabase(kind, { migrate: false });
    expect(await migrate(test.database)).toEqual(names);
    expect(await migrate(test.database)).toEqual([]);
  });

  it('let audit rows in and never be changed or removed, unless one takes that away first', async () => {
    await using test = await openTestDatabase(kind);
    const { pool } = test.database;
    await pool.query(row, [1]);
    for (const statement of [
      `update audit_events set code = 'x'`,
      'delete from audit_events',
      'truncate audit_events',
    ]) {
      await expect(pool.query(statement)).rejects.toMatchObject({ code: '42501' });
      const client = await test.database.connect();
      await client.query('grant update, delete, truncate on audit_events to current_user');
      await expect(client.query(statement)).rejects.toThrow(/append-only/);
      await client.query('revoke update, delete, truncate on audit_events from current_user');
      await client.end();
    }
    const count = () => pool.query('select count(*)::int as rows from audit_events');
    expect((await count()).rows).toEqual([{ rows: 1 }]);
    await test.tamper('delete from audit_events');
    expect((await count()).rows).toEqual([{ rows: 0 }]);
    await pool.query(row, [1]);
    await expect(pool.query('delete from audit_events')).rejects.toMatchObject({ code: '42501' });
  });

  it('of a newer version are not run over', async () => {
    await using test = await openTestDatabase(kind);
    await test.database.pool.query(
      `insert into drizzle.__drizzle_migrations (hash, created_at, name) values ('h', 1, '29990101000000_later')`,
    );
    await expect(migrate(test.database)).rejects.toThrow(/newer muxwarden.*29990101000000_later/);
  });
});

it('are each applied exactly once by three processes that start at once on an empty database', async () => {
  await using server = await startPostgresServer();
  for (let round = 0; round < 2; round += 1) {
    const url = await server.createDatabase();
    const results = await Promise.all(
      Array.from({ length: 3 }, () =>
        execa(process.execPath, [`${root}src/cli.ts`, 'migrate'], { env: { DATABASE_URL: url } }),
      ),
    );
    const applied = results.flatMap(({ stdout }) => stdout.match(/(?<=Applied ).*(?=\.)/g) ?? []);
    expect(applied.sort()).toEqual(names);
  }
});
