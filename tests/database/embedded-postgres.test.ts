import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { Client } from 'pg';
import { expect, it } from 'vitest';
import { connectEmbedded, runEmbedded } from '../../src/database/embedded-postgres.ts';
import { openDatabase } from '../../src/database/open.ts';
import { findPostmaster } from '../../src/database/postmaster.ts';
import { isAlive } from '../../src/database/process-life.ts';
import { openStateDirectory } from '../../src/database/state-directory.ts';
import { startChild } from '../support/child.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { eventually } from '../support/tmux-server.ts';

async function ask(connection: ConstructorParameters<typeof Client>[0], statement: string) {
  const client = new Client(connection);
  await client.connect();
  return (await client.query(statement).finally(() => client.end())).rows;
}

it('lives below a path that is longer than a socket may have, private and without a TCP port', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = join(scratch.path, 'a-long-name-for-a-directory'.repeat(8));
  await mkdir(stateDir, { mode: 0o700 });
  await using cluster = await runEmbedded(stateDir);
  const root = join(stateDir, 'postgres');
  expect(root.length).toBeGreaterThan(107);
  expect(await ask(cluster.connection, 'show listen_addresses')).toEqual([
    { listen_addresses: '' },
  ]);
  expect(await ask(cluster.connection, 'show fsync')).toEqual([{ fsync: 'on' }]);
  for (const place of ['', 'data', 'socket']) {
    expect((await stat(join(root, place))).mode & 0o077).toBe(0);
  }
  expect((await stat(join(root, 'password'))).mode & 0o777).toBe(0o600);
  await expect(ask({ ...cluster.connection, password: 'wrong' }, 'select 1')).rejects.toThrow(
    /password authentication failed/,
  );
  await using beside = await connectEmbedded(stateDir);
  expect(await ask(beside.connection, 'select 1 as one')).toEqual([{ one: 1 }]);
});

it('is adopted with all it knew when the service was killed, and ended with the next one', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = join(scratch.path, 'state');
  await using service = await startChild(`
    const { openStateDirectory } = await import(root + 'src/database/state-directory.ts');
    const { openDatabase } = await import(root + 'src/database/open.ts');
    const stateDirectory = await openStateDirectory({ stateDir: ${JSON.stringify(stateDir)} });
    const database = await openDatabase({ stateDir: stateDirectory.path }, { stateDirectory });
    const owner = await database.connectAsOwner();
    await owner.query('create table kept as select 42 as answer; grant select on kept to muxwarden');
    console.log('written');`);
  await service.line();
  const before = await findPostmaster(join(stateDir, 'postgres/data'));
  await service.kill('SIGKILL');
  expect(before && (await isAlive(before))).toBe(true);
  {
    await using stateDirectory = await openStateDirectory({ stateDir });
    await using database = await openDatabase(
      { databaseUrl: undefined, stateDir },
      { stateDirectory },
    );
    const after = await findPostmaster(join(stateDir, 'postgres/data'));
    expect(after?.pid).toBe(before?.pid);
    expect(after?.startTicks).toBe(before?.startTicks);
    expect((await database.pool.query('select * from kept')).rows).toEqual([{ answer: 42 }]);
  }
  expect(before && (await isAlive(before))).toBe(false);
});

it('starts beside lock files of the dead, whoever has their process id now', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = scratch.path;
  const data = join(stateDir, 'postgres/data');
  let files: readonly [string, string];
  {
    await using cluster = await runEmbedded(stateDir);
    files = [
      await readFile(join(data, 'postmaster.pid'), 'utf8'),
      await readFile(join(stateDir, 'postgres/socket/.s.PGSQL.5432.lock'), 'utf8'),
    ];
    expect(await isAlive(cluster.postmaster)).toBe(true);
  }
  // A live process of this user that is no postmaster: what an id that came back looks like.
  await using other = await startChild(`console.log('here')`);
  await other.line();
  const now = (text: string) => text.replace(/^\d+/, String(other.pid));
  await writeFile(join(data, 'postmaster.pid'), now(files[0]));
  await writeFile(join(stateDir, 'postgres/socket/.s.PGSQL.5432.lock'), now(files[1]));
  expect(await findPostmaster(data)).toBeUndefined();
  await using again = await runEmbedded(stateDir);
  expect(await ask(again.connection, 'select 1 as one')).toEqual([{ one: 1 }]);
});

it('is started again when its postmaster is killed, and the pool goes on', async () => {
  await using scratch = await scratchDirectory();
  await using stateDirectory = await openStateDirectory({ stateDir: join(scratch.path, 'state') });
  const stateDir = stateDirectory.path;
  await using database = await openDatabase(
    { databaseUrl: undefined, stateDir },
    { stateDirectory },
  );
  const owner = await database.connectAsOwner();
  await owner.query('create table kept as select 1 as one; grant select on kept to muxwarden');
  await owner.end();
  const postmaster = await findPostmaster(join(stateDir, 'postgres/data'));
  process.kill(postmaster?.pid ?? expect.fail(), 'SIGKILL');
  // A connection from before may still be answered for a moment, by a backend that outlived it.
  await eventually(
    async () => {
      const next = await findPostmaster(join(stateDir, 'postgres/data'));
      return next?.status === 'ready' && next.startTicks !== postmaster?.startTicks;
    },
    'another postmaster runs',
    60_000,
  );
  const rows = await eventually(
    () =>
      database.pool.query('select * from kept').then(
        (result) => result.rows,
        () => undefined,
      ),
    'the database answers again',
  );
  expect(rows).toEqual([{ one: 1 }]);
});

it('tells of a full disk in one sentence and in its own words, and leaves no half of itself', async () => {
  await using scratch = await scratchDirectory();
  const cli = new URL('../../src/cli.ts', import.meta.url).pathname;
  // A small file system that only this process and its children see.
  const result = await execa(
    'unshare',
    [
      ...['--user', '--map-root-user', '--mount', 'sh', '-c'],
      'mount -t tmpfs -o size=12m,mode=0700 tmpfs "$1" && "$2" "$3" members list; status=$?; ls "$1/state/postgres"; exit $status',
      ...['sh', scratch.path, process.execPath, cli],
    ],
    { env: { MUXWARDEN_STATE_DIR: join(scratch.path, 'state') }, reject: false },
  );
  expect(result.exitCode).toBe(1);
  expect(result.stderr).toMatch(/disk of .* is full: free some space/);
  expect(result.stderr).toMatch(/No space left on device/);
  expect(result.stderr).not.toMatch(/\n\s+at /);
  expect(result.stdout).not.toMatch(/data/);
});
