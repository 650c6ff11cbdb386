import { lstat, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import { postgresPrograms } from '../../database/postgres-programs.ts';
import { runningService } from '../../server/service-record.ts';
import { ifThere, isSystemError } from '../../system-error.ts';
import { withUnmigrated } from '../with-database.ts';
import { bad, type Check, good, looked } from './check.ts';

/** The state directory, the database, and whether a service runs. */
export async function* stateChecks(config: Config): AsyncIterable<Check> {
  yield await looked('service', config.stateDir, async () => {
    const service = await runningService(config.stateDir);
    return good(
      'service',
      service ? `runs as process ${service.pid} at ${service.url}` : 'not running',
    );
  });
  const directory = await privacy('state directory', config.stateDir, 0o077);
  yield directory ?? good('state directory', `${config.stateDir} will be made`);
  yield (await privacy('admin.key', join(config.stateDir, 'admin.key'), 0o077)) ??
    good('admin.key', 'made by the first start of the service');
  // Looking at the database opens the state directory, which would mend what was just found.
  if (directory?.ok !== false) yield await database(config);
}

/** Undefined: not there. */
async function privacy(name: string, path: string, others: number): Promise<Check | undefined> {
  try {
    const { mode, uid } = await stat(path);
    const bits = (mode & 0o7777).toString(8).padStart(4, '0');
    if (uid !== process.geteuid?.()) {
      return bad(
        name,
        `${path} belongs to the user with id ${uid}`,
        'Run muxwarden as that user, or give it to yours: chown.',
      );
    }
    return (mode & others) === 0
      ? good(name, `${path}, mode ${bits}`)
      : bad(name, `${path} is open to others, mode ${bits}`, `Close it: chmod go= ${path}`);
  } catch (cause) {
    if (isSystemError(cause, 'ENOENT')) return undefined;
    return bad(
      name,
      `${path} can't be looked at: ${cause instanceof Error ? cause.message : cause}`,
      'Set MUXWARDEN_STATE_DIR to a directory that your user may enter.',
    );
  }
}

async function database(config: Config): Promise<Check> {
  try {
    if (config.databaseUrl === undefined && !(await hasCluster(config))) {
      return await trial();
    }
    const detail = await withUnmigrated(config, async ({ pool, target }) => {
      const { rows } = await pool.query<{ server_version: string }>('show server_version');
      return `PostgreSQL ${rows[0]?.server_version} at ${target} answers`;
    });
    return good('database', detail);
  } catch (error) {
    const [said = '', ...remedy] = (error instanceof Error ? error.message : String(error)).split(
      /(?<=\.) /,
    );
    return bad('database', said, remedy.join(' ') || 'Set DATABASE_URL to a PostgreSQL server.');
  }
}

const hasCluster = async (config: Config) =>
  (await ifThere(lstat(join(config.stateDir, 'postgres/data')))) !== undefined;

/** Whether the embedded PostgreSQL would run, without making anything that stays. */
async function trial(): Promise<Check> {
  const scratch = await mkdtemp(join(tmpdir(), 'muxwarden-'));
  try {
    await postgresPrograms(scratch);
    return good(
      'database',
      'the embedded PostgreSQL runs here; its first start makes the database',
    );
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
