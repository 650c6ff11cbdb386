import { readdir } from 'node:fs/promises';
import { execa } from 'execa';
import { Client } from 'pg';
import { describe, expect, it } from 'vitest';
import { migrate } from '../../src/database/migrate.ts';
import { openDatabase } from '../../src/database/open.ts';
import { openStateDirectory } from '../../src/database/state-directory.ts';
import { databaseKinds, openTestDatabase, startPostgresServer } from '../support/postgres.ts';
import { scratchDirectory } from '../support/scratch.ts';

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
      const client = await test.database.connectAsOwner();
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

  it('leave the role of the service no way to take that away, where the cluster is ours', async () => {
    await using test = await openTestDatabase(kind);
    const client = await test.database.connect();
    const attempts = [
      'alter table audit_events disable trigger audit_events_append_only',
      'drop trigger audit_events_append_only on audit_events',
      'drop table audit_events',
      'create or replace function refuse_audit_change() returns trigger language plpgsql as $$ begin return null; end $$',
      `set role muxwarden_owner`,
      `set session_replication_role = replica`,
    ];
    await client.query('begin');
    await client.query('grant delete on audit_events to current_user');
    const { rows } = await client.query(
      `select has_table_privilege(current_user, 'audit_events', 'DELETE') as granted`,
    );
    await client.query('rollback');
    expect(rows).toEqual([{ granted: kind === 'server' }]);
    const codes: string[] = [];
    for (const attempt of attempts) {
      await client.query('begin');
      const code = await client.query(attempt).then(
        () => 'done',
        (error: { code: string }) => error.code,
      );
      codes.push(code);
      await client.query('rollback');
    }
    await client.end();
    // A role of DATABASE_URL that is alone owns its tables: docs/audit.md says what that loses.
    const refused = ['42501', '42501', '42501', '42501', '42501', '42501'];
    const alone = ['done', 'done', 'done', 'done', '22023', '42501'];
    expect(codes).toEqual(kind === 'embedded' ? refused : alone);
  });

  it('of a newer version are not run over', async () => {
    await using test = await openTestDatabase(kind);
    const owner = await test.database.connectAsOwner();
    await owner.query(
      `insert into drizzle.__drizzle_migrations (hash, created_at, name) values ('h', 1, '29990101000000_later')`,
    );
    await owner.end();
    await expect(migrate(test.database)).rejects.toThrow(/newer muxwarden.*29990101000000_later/);
  });
});

it('take the tables of an earlier version from the role of the service', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = scratch.path;
  await using stateDirectory = await openStateDirectory({ stateDir });
  const open = () => openDatabase({ databaseUrl: undefined, stateDir }, { stateDirectory });
  {
    await using database = await open();
    await migrate(database);
    const { host, port, password } = database.pool.options;
    const superuser = new Client({ host, port, password, user: 'postgres', database: 'muxwarden' });
    await superuser.connect();
    await superuser.query('reassign owned by muxwarden_owner to muxwarden');
    await superuser.query('drop owned by muxwarden_owner; drop role muxwarden_owner');
    await superuser.end();
    await database.pool.query(row, [1]);
  }
  await using database = await open();
  expect(await migrate(database)).toEqual([]);
  await database.pool.query(row, [2]);
  await expect(database.pool.query('drop table audit_events')).rejects.toMatchObject({
    code: '42501',
  });
  await expect(database.pool.query('delete from audit_events')).rejects.toMatchObject({
    code: '42501',
  });
  const { rows } = await database.pool.query('select sequence::int from audit_events order by 1');
  expect(rows).toEqual([{ sequence: 1 }, { sequence: 2 }]);
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
