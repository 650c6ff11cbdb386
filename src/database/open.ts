import { setTimeout as sleep } from 'node:timers/promises';
import { drizzle } from 'drizzle-orm/node-postgres';
import { Client, type ClientConfig, Pool } from 'pg';
import { type Clock, systemClock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import type { Database, Log } from './database.ts';
import { connectEmbedded, ownerRole, runEmbedded } from './embedded-postgres.ts';
import { NotificationListener } from './notifications.ts';
import type { StateDirectory } from './state-directory.ts';
import { supervise } from './supervision.ts';
import { codeOf, type Destination, unavailable } from './unavailable.ts';

/** Milliseconds. The server ends a statement itself; ours is for a server that is out of reach. */
const patience = { connect: 5_000, statement: 10_000, answer: 15_000, idleInTransaction: 30_000 };

export interface OpenDatabaseOptions {
  /**
   * Whoever holds it runs the embedded PostgreSQL; without it, it is reached where its holder runs
   * it. Not needed for DATABASE_URL.
   */
  readonly stateDirectory?: StateDirectory;
  readonly log?: Log;
  readonly clock?: Clock;
}

/**
 * Opens DATABASE_URL, or else the embedded PostgreSQL, and sees that it answers. Does not migrate.
 * From then on it mends itself: lost connections are made anew, a killed embedded server is started.
 * @throws DatabaseUnavailableError
 */
export async function openDatabase(
  config: Pick<Config, 'databaseUrl' | 'stateDir'>,
  options: OpenDatabaseOptions = {},
): Promise<Database> {
  await using parts = new AsyncDisposableStack();
  const { connection, target, owner } = await wayTo(config, options, parts);
  const settings: ClientConfig = {
    ...connection,
    application_name: 'muxwarden',
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: patience.connect,
  };
  const destination = destinationOf(settings, target);
  const pool = parts.adopt(
    new Pool({
      ...settings,
      max: 10,
      statement_timeout: patience.statement,
      query_timeout: patience.answer,
      idle_in_transaction_session_timeout: patience.idleInTransaction,
    }),
    (open) => open.end(),
  );
  // A connection that is lost while nobody uses it is no more than that: the pool makes another.
  // While it ends that is what it is to be: the embedded server stops before it has heard of all of it.
  pool.on('error', (err) => {
    if (!pool.ending) options.log?.warn({ err }, 'an idle database connection was lost');
  });
  await untilAnswering(pool, destination);
  const notifications = parts.use(
    new NotificationListener(settings, options.log, options.clock ?? systemClock),
  );
  const connect = async (as: ClientConfig) => {
    const client = new Client(as);
    client.on('error', (err) => options.log?.warn({ err }, 'a database connection was lost'));
    await client.connect().catch((cause) => {
      throw unavailable(destination, cause);
    });
    return client;
  };
  const owned = parts.move();
  return {
    pool,
    drizzle: drizzle({ client: pool }),
    notifications,
    target: destination.target,
    connect: () => connect(settings),
    connectAsOwner: () => connect(owner === undefined ? settings : { ...settings, user: owner }),
    grantee: owner === undefined ? undefined : connection.user,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function wayTo(
  config: Pick<Config, 'databaseUrl' | 'stateDir'>,
  options: OpenDatabaseOptions,
  parts: AsyncDisposableStack,
): Promise<{ connection: ClientConfig; target?: string; owner?: string }> {
  if (config.databaseUrl !== undefined)
    return { connection: { connectionString: config.databaseUrl } };
  const target = `${config.stateDir}/postgres`;
  if (options.stateDirectory === undefined) {
    const { connection } = parts.use(await connectEmbedded(config.stateDir));
    return { connection, target, owner: ownerRole };
  }
  const cluster = await runEmbedded(options.stateDirectory.path, options.log);
  parts.use(supervise(cluster, options.log));
  return { connection: cluster.connection, target, owner: ownerRole };
}

function destinationOf(settings: ClientConfig, target: string | undefined): Destination {
  const unparsed = { target: 'DATABASE_URL', user: '', database: '', password: undefined };
  try {
    const { host, port, user = '', database = '', password } = new Client(settings);
    const place = host.startsWith('/')
      ? host
      : `${host.includes(':') ? `[${host}]` : host}:${port}`;
    return { target: target ?? place, user, database, password: password ?? undefined };
  } catch (cause) {
    throw unavailable(unparsed, cause);
  }
}

/** A server that is just starting is waited for; every other refusal is final. */
async function untilAnswering(pool: Pool, destination: Destination): Promise<void> {
  const end = systemClock.monotonic() + 30_000;
  for (;;) {
    try {
      await pool.query('select 1');
      return;
    } catch (cause) {
      if (codeOf(cause) !== '57P03' || systemClock.monotonic() > end) {
        throw unavailable(destination, cause);
      }
      await sleep(250);
    }
  }
}
