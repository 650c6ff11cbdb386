import { randomBytes } from 'node:crypto';
import { close as closeCallback, constants, open as openCallback } from 'node:fs';
import { mkdir, open as openFile, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client, type ClientConfig } from 'pg';
import { systemClock } from '../concurrency/clock.ts';
import { writeFileDurably } from '../durable-file.ts';
import type { Log } from './database.ts';
import { failure, type Places, placesIn } from './embedded-places.ts';
import { type PostgresPrograms, postgresPrograms } from './postgres-programs.ts';
import { findPostmaster, type Postmaster, retireLockFiles, stopPostmaster } from './postmaster.ts';
import { isAlive, lifeOf, type ProcessLife } from './process-life.ts';
import { DatabaseUnavailableError } from './unavailable.ts';

/**
 * PostgreSQL in the state directory, for this installation alone:
 *
 *   postgres/data      the cluster, 0700; made as `data.making` and renamed, so it is whole or absent
 *   postgres/socket    the only way in, 0700: a Unix socket. No TCP port is opened
 *   postgres/password  0600, made before the cluster, asked for by SCRAM
 *   postgres/log       what the running postmaster said since it was started
 *
 * A socket's path must fit 107 bytes, a state directory need not: the server makes it by a path
 * relative to its data directory, and we reach it through a descriptor of the directory that we hold.
 *
 * The postmaster is a session of its own, so that a terminal's Ctrl-C reaches us alone, and outlives
 * us when we are killed; the next start adopts it. Starting and stopping are for the holder of the
 * state directory's lock; others connect.
 */
export interface EmbeddedPostgres extends AsyncDisposable {
  readonly connection: ClientConfig;
}

/** The way to a cluster that somebody else runs. @throws DatabaseUnavailableError when nobody does */
export async function connectEmbedded(stateDir: string): Promise<EmbeddedPostgres> {
  const places = placesIn(stateDir);
  const postmaster = await findPostmaster(places.data);
  if (postmaster?.status !== 'ready') {
    throw new DatabaseUnavailableError(
      `The embedded PostgreSQL in ${places.root} is not running (yet). Try again in a moment.`,
    );
  }
  return reach(places);
}

/** A cluster that we run; disposing it is a clean shutdown. */
export interface RunningCluster extends EmbeddedPostgres {
  readonly postmaster: ProcessLife;
  /** After the postmaster died. */
  start(): Promise<void>;
}

/**
 * Makes the cluster where there is none, adopts a postmaster that lives, or starts one.
 * @throws DatabaseUnavailableError with PostgreSQL's own words
 */
export async function runEmbedded(stateDir: string, log?: Log): Promise<RunningCluster> {
  const places = placesIn(stateDir);
  await mkdir(places.root, { recursive: true, mode: 0o700 });
  await mkdir(places.socket, { recursive: true, mode: 0o700 });
  const programs = await postgresPrograms(places.root);
  if (!(await exists(join(places.data, 'PG_VERSION')))) {
    log?.info({ directory: places.data }, 'first start: making the database, which takes a moment');
    await initialise(places, programs);
  }
  let postmaster: ProcessLife = await adoptOrStart(places, programs);
  const way = await reach(places);
  try {
    await prepare(way.connection);
  } catch (cause) {
    await stopPostmaster(postmaster);
    await way[Symbol.asyncDispose]();
    throw await failure(places, 'The embedded PostgreSQL could not be prepared', [], cause);
  }
  return {
    connection: way.connection,
    get postmaster() {
      return postmaster;
    },
    async start() {
      postmaster = await adoptOrStart(places, programs);
    },
    async [Symbol.asyncDispose]() {
      await stopPostmaster(postmaster);
      await way[Symbol.asyncDispose]();
    },
  };
}

async function initialise(places: Places, programs: PostgresPrograms): Promise<void> {
  const making = `${places.data}.making`;
  await rm(making, { recursive: true, force: true });
  if (!(await exists(places.password))) {
    await writeFileDurably(places.password, `${randomBytes(32).toString('base64url')}\n`, 0o600);
  }
  const result = await programs.run('initdb', [
    `--pgdata=${making}`,
    '--username=postgres',
    '--auth=scram-sha-256',
    `--pwfile=${places.password}`,
    '--encoding=UTF8',
    // Its own provider: the same order on every machine, whatever locales that one has.
    '--locale-provider=builtin',
    '--locale=C.UTF-8',
    '--no-instructions',
  ]);
  if (result.exitCode !== 0) {
    await rm(making, { recursive: true, force: true });
    const said = result.said.split('\n');
    throw await failure(places, 'The embedded PostgreSQL could not be made', said);
  }
  await rename(making, places.data);
}

async function adoptOrStart(places: Places, programs: PostgresPrograms): Promise<ProcessLife> {
  let found = await findPostmaster(places.data);
  if (found?.status === 'stopping') {
    await stopPostmaster(found);
    found = undefined;
  }
  if (found !== undefined) {
    const adopted = found;
    await untilReady(places, () => isAlive(adopted));
    return adopted;
  }
  await retireLockFiles(places.data, places.socket);
  // What the one before said at its end stays readable.
  if (await exists(places.log)) await rename(places.log, `${places.log}.1`);
  const log = await openFile(places.log, 'w', 0o600);
  try {
    const child = programs.spawn('postgres', ['-D', places.data, ...settings], log.fd);
    let ended = false;
    const end = () => {
      ended = true;
    };
    child.once('error', end).once('exit', end);
    const { pid } = await untilReady(places, async () => !ended);
    const life = await lifeOf(pid);
    if (life === undefined) throw await failure(places, 'The embedded PostgreSQL ended');
    return life;
  } finally {
    await log.close();
  }
}

const settings = Object.entries({
  listen_addresses: '',
  unix_socket_directories: '../socket',
  unix_socket_permissions: '0700',
  port: '5432',
  max_connections: '50',
  shared_buffers: '32MB',
  fsync: 'on',
  synchronous_commit: 'on',
  // What statements say may hold what members typed; only the server's own life is logged.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
  logging_collector: 'off',
}).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

async function untilReady(places: Places, lives: () => Promise<boolean>): Promise<Postmaster> {
  // Recovery after a crash reads all that was written since the last checkpoint.
  const end = systemClock.monotonic() + 120_000;
  while (systemClock.monotonic() < end) {
    const living = await lives();
    const found = await findPostmaster(places.data);
    if (found?.status === 'ready') return found;
    if (!living) throw await failure(places, 'The embedded PostgreSQL did not start');
    await sleep(20);
  }
  throw await failure(places, 'The embedded PostgreSQL was not ready within 2 minutes');
}

/** Owns the database and its tables; the service's own role does not, so it can't take back what it lacks. */
export const ownerRole = 'muxwarden_owner';

/** Also of a cluster from before there was such an owner. */
async function prepare(connection: ClientConfig): Promise<void> {
  const asSuperuser = async (database: string, work: (client: Client) => Promise<void>) => {
    const client = new Client({ ...connection, user: 'postgres', database });
    await client.connect();
    await work(client).finally(() => client.end());
  };
  let ownedByService = false;
  await asSuperuser('postgres', async (client) => {
    const { rows } = await client.query<{ role: boolean; owner: boolean; database: string | null }>(
      `select exists (select from pg_roles where rolname = 'muxwarden') as role,
              exists (select from pg_roles where rolname = '${ownerRole}') as owner,
              (select datdba::regrole::text from pg_database where datname = 'muxwarden') as database`,
    );
    const secret = client.escapeLiteral(String(connection.password));
    const [there] = rows;
    if (!there?.role) await client.query(`create role muxwarden login password ${secret}`);
    if (!there?.owner) await client.query(`create role ${ownerRole} login password ${secret}`);
    if (!there?.database) await client.query(`create database muxwarden owner ${ownerRole}`);
    ownedByService = there?.database === 'muxwarden';
  });
  if (ownedByService)
    await asSuperuser('muxwarden', async (client) => {
      await client.query(`reassign owned by muxwarden to ${ownerRole}`);
    });
}

async function reach(places: Places): Promise<EmbeddedPostgres> {
  const password = (
    await readFile(places.password, 'utf8').catch((cause) => {
      throw new DatabaseUnavailableError(
        `The password of the embedded PostgreSQL can't be read from ${places.password}. Put the file back (a backup of the state directory has it).`,
        [],
        cause,
      );
    })
  ).trim();
  const { O_RDONLY, O_DIRECTORY } = constants;
  const directory = await open(places.socket, O_RDONLY | O_DIRECTORY);
  return {
    connection: {
      host: `/proc/self/fd/${directory}`,
      port: 5432,
      user: 'muxwarden',
      database: 'muxwarden',
      password,
      ssl: false,
    },
    [Symbol.asyncDispose]: () => close(directory),
  };
}

const open = promisify(openCallback);
const close = promisify(closeCallback);

const exists = (path: string) =>
  stat(path).then(
    () => true,
    (cause) => {
      if (cause.code === 'ENOENT') return false;
      throw cause;
    },
  );
