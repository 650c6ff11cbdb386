import { describe, expect, it } from 'vitest';
import { databaseKinds, openTestDatabase } from '../support/postgres.ts';

describe.each(databaseKinds)('an open database (%s)', (kind) => {
  it('answers as a role that is no superuser, and goes on after its idle connections were ended', async () => {
    await using test = await openTestDatabase(kind);
    const { pool } = test.database;
    const { rows } = await pool.query(
      'select rolsuper as superuser from pg_roles where rolname = current_user',
    );
    expect(rows).toEqual([{ superuser: false }]);
    await Promise.all(Array.from({ length: 5 }, () => pool.query('select pg_sleep(0.05)')));
    expect(pool.idleCount).toBeGreaterThan(1);
    const killer = await test.database.connect();
    await killer.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where pid <> pg_backend_pid() and usename = current_user and state = 'idle'`,
    );
    await killer.end();
    await expect.poll(() => pool.idleCount).toBe(0);
    await expect(pool.query('select 1 as one')).resolves.toMatchObject({ rows: [{ one: 1 }] });
  });
});
