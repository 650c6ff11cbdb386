import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import type { Database } from '../database/database.ts';
import { migrate } from '../database/migrate.ts';
import { openDatabase } from '../database/open.ts';
import {
  openStateDirectory,
  type StateDirectory,
  StateDirectoryHeldError,
} from '../database/state-directory.ts';
import { DatabaseUnavailableError } from '../database/unavailable.ts';

/**
 * The database for one command, migrated. Where a service runs the embedded PostgreSQL it is used
 * beside that service; where none does it is started for the command and stopped again.
 */
export function withDatabase<T>(
  config: Config,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  return withUnmigrated(config, async (database) => {
    await migrate(database);
    return work(database);
  });
}

/** The same, with the tables as they are. */
export async function withUnmigrated<T>(
  config: Config,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  await using parts = new AsyncDisposableStack();
  const database = parts.use(await open(config, parts));
  return await work(database);
}

async function open(config: Config, parts: AsyncDisposableStack): Promise<Database> {
  if (config.databaseUrl !== undefined) return openDatabase(config);
  const held = await tryState(config);
  if (held !== undefined) {
    parts.use(held);
    return openDatabase(config, { stateDirectory: held });
  }
  // A service that is just starting has the lock before it has a database.
  const end = systemClock.monotonic() + 60_000;
  for (;;) {
    try {
      return await openDatabase(config);
    } catch (error) {
      const waiting = error instanceof DatabaseUnavailableError && systemClock.monotonic() < end;
      if (!waiting) throw error;
      const freed = await tryState(config);
      if (freed !== undefined) {
        parts.use(freed);
        return openDatabase(config, { stateDirectory: freed });
      }
      await sleep(200);
    }
  }
}

/** Undefined when a service has it. */
async function tryState(config: Config): Promise<StateDirectory | undefined> {
  try {
    return await openStateDirectory(config, { purpose: 'command', waitMs: 60_000 });
  } catch (error) {
    if (error instanceof StateDirectoryHeldError && error.holder?.purpose === 'service') {
      return undefined;
    }
    throw error;
  }
}
