import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/database/open.ts';
import { DatabaseUnavailableError } from '../../src/database/unavailable.ts';
import {
  databaseKinds,
  openTestDatabase,
  type PostgresServer,
  startPostgresServer,
} from '../support/postgres.ts';
import { eventually } from '../support/tmux-server.ts';

describe.each(databaseKinds)('an open database (%s)', (kind) => {
  it('answers as a role that is no superuser, and goes on after its idle connections were ended', async () => {
    await using test = await openTestDatabase(kind, { migrate: false });
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

describe('DATABASE_URL', () => {
  let server: PostgresServer;
  let url: URL;
  beforeAll(async () => {
    server = await startPostgresServer();
    url = new URL(await server.createDatabase());
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  });

  const open = (change: (url: URL) => void) => {
    const changed = new URL(url);
    change(changed);
    return openDatabase({ databaseUrl: changed.href, stateDir: '/nowhere' }).then(
      async (database) => {
        await database[Symbol.asyncDispose]();
        return 'open';
      },
      (error) => error,
    );
  };

  it.each([
    ['a wrong password', 'wrong-secret', /refused the password of user 'mw_/],
    ['no password', '', /DATABASE_URL has none/],
  ])('with %s is refused in a sentence without it', async (_, password, sentence) => {
    const error = await open((changed) => {
      changed.password = password;
    });
    expect(error).toBeInstanceOf(DatabaseUnavailableError);
    expect(error.message).toMatch(sentence);
    expect(error.message).not.toContain('wrong-secret');
  });

  it('of a database that is not there says how to make it', async () => {
    const error = await open((changed) => {
      changed.pathname = '/nope';
    });
    expect(error.message).toMatch(/has no database 'nope'. Create it \(createdb 'nope'\)/);
  });

  it('of a port where nobody listens, or of a host that is not, says so', async () => {
    const refused = await open((changed) => {
      changed.port = '1';
    });
    expect(refused.message).toMatch(/127\.0\.0\.1:1 accepts no connections \(ECONNREFUSED\)/);
    const nowhere = await open((changed) => {
      changed.hostname = 'nowhere.invalid';
    });
    expect(nowhere.message).toMatch(/host of .*nowhere\.invalid.* can't be found/);
  });

  it('is used again by itself after its server was stopped and started', async () => {
    await using test = await openTestDatabase('server', { server, migrate: false });
    const { pool } = test.database;
    await pool.query('select 1');
    await server.stop();
    await expect(pool.query('select 1')).rejects.toThrow();
    await server.start();
    const answer = await eventually(
      () => pool.query('select 1 as one').catch(() => undefined),
      'the pool answers again',
    );
    expect(answer.rows).toEqual([{ one: 1 }]);
  });
});
