import { readFile, readlink, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../concurrency/clock.ts';
import { ifThere, isSystemError } from '../system-error.ts';
import { isAlive, lifeOf, type ProcessLife } from './process-life.ts';

/**
 * The postmaster of a data directory, as `postmaster.pid` and the process table tell it. The file
 * outlives its writer, ids come back and zombies linger, so the process it names counts only when
 * it runs in that very data directory (a postmaster's working directory is its data directory), as
 * this user, as `postgres`.
 */
export interface Postmaster extends ProcessLife {
  readonly status: 'starting' | 'stopping' | 'ready' | 'standby';
}

/** The living postmaster of this data directory, if any. */
export async function findPostmaster(data: string): Promise<Postmaster | undefined> {
  const lines = await pidFile(data);
  const pid = Number(lines?.[0]);
  if (!Number.isInteger(pid) || pid <= 1) return undefined;
  const life = await lifeOf(pid);
  if (life === undefined || !(await runsIn(pid, data)) || !(await isAlive(life))) return undefined;
  const said = lines?.[7]?.trim();
  const status = said === 'stopping' || said === 'ready' || said === 'standby' ? said : 'starting';
  return { ...life, status };
}

/**
 * Makes the lock files of a dead postmaster harmless. PostgreSQL would refuse to start while any
 * process of this user, even a zombie, has the id in them. `postmaster.pid` stays, with our own id:
 * PostgreSQL passes over its parent's, and still finds in it the shared memory that orphaned
 * backends of the dead one may hold, which it then refuses to start beside.
 * Only for who holds the state directory's lock.
 */
export async function retireLockFiles(data: string, socket: string): Promise<void> {
  const lines = await pidFile(data);
  if (lines !== undefined) {
    await writeFile(
      join(data, 'postmaster.pid'),
      [String(process.pid), ...lines.slice(1)].join('\n'),
    );
  }
  await rm(join(socket, '.s.PGSQL.5432.lock'), { force: true });
}

/** Fast shutdown, then, when that takes longer than `ms`, the immediate one that recovery mends. */
export async function stopPostmaster(postmaster: ProcessLife, ms = 30_000): Promise<void> {
  await end(postmaster, 'SIGINT', ms);
  await end(postmaster, 'SIGQUIT', 5_000);
  await end(postmaster, 'SIGKILL', 5_000);
}

async function end(postmaster: ProcessLife, signal: NodeJS.Signals, ms: number): Promise<void> {
  if (!(await isAlive(postmaster))) return;
  process.kill(postmaster.pid, signal);
  const until = systemClock.monotonic() + ms;
  while (systemClock.monotonic() < until && (await isAlive(postmaster))) await sleep(20);
}

async function pidFile(data: string): Promise<readonly string[] | undefined> {
  return (await ifThere(readFile(join(data, 'postmaster.pid'), 'utf8')))?.split('\n');
}

async function runsIn(pid: number, data: string): Promise<boolean> {
  try {
    const [cwd, own, name, { uid }] = await Promise.all([
      readlink(`/proc/${pid}/cwd`),
      realpath(data),
      readFile(`/proc/${pid}/comm`, 'utf8'),
      stat(`/proc/${pid}`),
    ]);
    return cwd === own && name.trim() === 'postgres' && uid === process.geteuid?.();
  } catch (cause) {
    // Gone while we looked, or another user's: not ours.
    if (isSystemError(cause, 'ENOENT', 'ESRCH', 'EACCES', 'EPERM')) return false;
    throw cause;
  }
}
