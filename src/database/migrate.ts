import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate as runMigrations } from 'drizzle-orm/node-postgres/migrator';
import type { Client } from 'pg';
import type { Database } from './database.ts';
import { DatabaseUnavailableError, unavailable } from './unavailable.ts';

const folder = join(import.meta.dirname, '../../migrations');
/** Any number that nobody else takes: "muxwarde" in ASCII. */
const lockKey = '7887614834183726181';

/**
 * Brings the tables to what this program needs. Processes that start together take turns, so each
 * migration is applied once; each is one transaction with its row of the record.
 * @returns the names of those that were applied now
 * @throws DatabaseUnavailableError, also for a database that a newer muxwarden has migrated
 */
export async function migrate(database: Database): Promise<readonly string[]> {
  const client = await database.connectAsOwner();
  try {
    await client.query(`set lock_timeout = '120s'`);
    await client.query('select pg_advisory_lock($1)', [lockKey]);
    const before = await applied(client);
    const known = new Set(await readdir(folder));
    const unknown = before.filter((name) => !known.has(name));
    if (unknown.length > 0) {
      throw new DatabaseUnavailableError(
        `The database at ${database.target} was made by a newer muxwarden (it has ${unknown[0]}). Run that version, or restore the backup made before the upgrade.`,
      );
    }
    await runMigrations(drizzle({ client }), { migrationsFolder: folder });
    if (database.grantee !== undefined) await grant(client, database.grantee);
    const done = new Set(before);
    return (await applied(client)).filter((name) => !done.has(name));
  } catch (cause) {
    const { user = '', database: name = '', password } = client;
    const to = { target: database.target, user, database: name, password: password ?? undefined };
    throw unavailable(to, cause instanceof Error && cause.cause ? cause.cause : cause);
  } finally {
    await client.end();
  }
}

/** What the service needs of tables that it does not own: of the audit record, to read and to add. */
async function grant(client: Client, role: string): Promise<void> {
  const { rows } = await client.query<{ granted: boolean }>(
    `select bool_and(has_table_privilege($1, oid, 'INSERT')
              and has_table_privilege($1, oid, 'DELETE') = (relname <> 'audit_events')) as granted
       from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`,
    [role],
  );
  if (rows[0]?.granted) return;
  const to = client.escapeIdentifier(role);
  await client.query(`
    begin;
    grant select, insert, update, delete on all tables in schema public to ${to};
    revoke update, delete, truncate on audit_events from ${to};
    commit`);
}

async function applied(client: Client): Promise<readonly string[]> {
  const { rows } = await client.query<{ there: boolean }>(
    `select to_regclass('drizzle.__drizzle_migrations') is not null as there`,
  );
  if (!rows[0]?.there) return [];
  const names = await client.query<{ name: string }>(
    'select name from drizzle.__drizzle_migrations order by id',
  );
  return names.rows.map(({ name }) => name);
}
