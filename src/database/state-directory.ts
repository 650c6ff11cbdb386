import { spawn } from 'node:child_process';
import { close as closeCallback, constants, open as openCallback } from 'node:fs';
import { chmod, mkdir, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { systemClock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import { jsonText } from '../json-text.ts';
import { ifThere } from '../system-error.ts';
import { lifeOf } from './process-life.ts';

/**
 * The directory that holds what this installation keeps: mode 0700, used by one process at a time.
 *
 * The lock is an flock on the open file description of `<directory>/lock`, which this process holds
 * until it ends, however it ends; a zombie holds none. Node.js has no flock, so a child that inherits
 * the descriptor takes the lock on it and exits: the lock stays with the description. The content of
 * the file only says who holds it.
 */
export interface StateDirectory extends AsyncDisposable {
  readonly path: string;
}

/** `command` holders end soon by themselves; `service` holders stay. */
export type Purpose = 'service' | 'command';

const holderShape = z.object({
  pid: z.number().int().positive(),
  purpose: z.enum(['service', 'command']),
});
export type Holder = z.infer<typeof holderShape>;

/** The directory can't be used: the message says why, and what to do. */
export class StateDirectoryError extends Error {
  override readonly name: string = 'StateDirectoryError';
}

/** Another live process has the directory. */
export class StateDirectoryHeldError extends StateDirectoryError {
  override readonly name = 'StateDirectoryHeldError';
  readonly holder: Holder | undefined;
  constructor(path: string, holder: Holder | undefined) {
    const who = holder === undefined ? 'another process' : `process ${holder.pid}`;
    super(
      `The state directory ${path} is in use by ${who}. Stop that one, or set MUXWARDEN_STATE_DIR to another directory.`,
    );
    this.holder = holder;
  }
}

export interface StateDirectoryOptions {
  readonly purpose?: Purpose;
  /** How long to wait for a holder that is a `command`; one that is a `service` is never waited for. */
  readonly waitMs?: number;
}

/**
 * Makes the directory where it is missing, checks it and takes its lock.
 * @throws StateDirectoryHeldError with the holder's pid
 * @throws StateDirectoryError when it can't be made or is not this user's alone
 */
export async function openStateDirectory(
  config: Pick<Config, 'stateDir'>,
  options: StateDirectoryOptions = {},
): Promise<StateDirectory> {
  const path = config.stateDir;
  await makePrivate(path);
  const lock = join(path, 'lock');
  const end = systemClock.monotonic() + (options.waitMs ?? 15_000);
  for (;;) {
    const held = await tryLock(lock);
    if (held !== undefined) {
      const holder: Holder = { pid: process.pid, purpose: options.purpose ?? 'service' };
      await writeFile(lock, `${JSON.stringify(holder)}\n`);
      return {
        path,
        async [Symbol.asyncDispose]() {
          await truncate(lock);
          await close(held);
        },
      };
    }
    const holder = await holderOf(path);
    if (holder?.purpose === 'service' || systemClock.monotonic() > end) {
      throw new StateDirectoryHeldError(path, holder);
    }
    await sleep(50);
  }
}

const open = promisify(openCallback);
const close = promisify(closeCallback);

async function makePrivate(path: string): Promise<void> {
  try {
    await makeDirectories(path);
    const { uid, mode } = await stat(path);
    if (uid !== process.geteuid?.()) {
      throw new StateDirectoryError(
        `The state directory ${path} belongs to the user with id ${uid}. Set MUXWARDEN_STATE_DIR to a directory of your own.`,
      );
    }
    if ((mode & 0o077) === 0) return;
    // Only what is ours is closed to others: this may be a home, or /tmp.
    const content = await readdir(path);
    if (content.length > 0 && !content.includes('lock')) {
      throw new StateDirectoryError(
        `The state directory ${path} is open to other users and holds other things. Set MUXWARDEN_STATE_DIR to a directory of its own, or close it with: chmod 700 ${path}`,
      );
    }
    await chmod(path, 0o700);
  } catch (cause) {
    if (cause instanceof StateDirectoryError) throw cause;
    throw unusable(path, cause);
  }
}

/** Step by step: where nothing can be made, as below /proc, mkdir's own recursion never ends. */
async function makeDirectories(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return;
    const parent = dirname(path);
    if (codeOf(cause) !== 'ENOENT' || (await exists(parent))) throw cause;
    await makeDirectories(parent);
    await mkdir(path, { mode: 0o700 });
  }
}

const codeOf = (cause: unknown) =>
  cause instanceof Error && 'code' in cause ? cause.code : undefined;

const exists = async (path: string) => (await ifThere(stat(path))) !== undefined;

/** The locked descriptor, or undefined when another process has the lock. */
async function tryLock(lock: string): Promise<number | undefined> {
  const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;
  const descriptor = await open(lock, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600).catch((cause) => {
    throw unusable(lock, cause);
  });
  for (const [program, ...words] of lockers) {
    const outcome = await lockOnInput(program, words, descriptor);
    if (outcome === 0) return descriptor;
    if (outcome === 'ENOENT') continue;
    await close(descriptor);
    if (outcome === 1) return undefined;
    throw new StateDirectoryError(
      `The state directory's lock ${lock} can't be taken (${program}: ${outcome}). Put the state directory (MUXWARDEN_STATE_DIR) on a file system with locks.`,
    );
  }
  await close(descriptor);
  throw new StateDirectoryError(
    `The lock ${lock} can't be taken without flock or perl. Install one: apt-get install util-linux`,
  );
}

/** Exit status, or the code of the error that kept it from running. execa takes no descriptor above 9. */
function lockOnInput(
  program: string,
  words: readonly string[],
  descriptor: number,
): Promise<number | string> {
  return new Promise((resolve) => {
    const child = spawn(program, words, {
      stdio: [descriptor, 'ignore', 'ignore'],
      env: { PATH: process.env.PATH || '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' },
      timeout: 10_000,
      killSignal: 'SIGKILL',
    });
    child.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    child.once('exit', (status, signal) => resolve(status ?? signal ?? 'ended'));
  });
}

const lockers: readonly (readonly [string, ...string[]])[] = [
  ['flock', '--exclusive', '--nonblock', '0'],
  [
    'perl',
    '-MFcntl=:flock',
    '-e',
    'flock(STDIN, LOCK_EX | LOCK_NB) or exit($!{EWOULDBLOCK} ? 1 : 2)',
  ],
];

/** Who holds the directory as it says itself; undefined when nobody does or has not said so yet. */
export async function holderOf(path: string): Promise<Holder | undefined> {
  const written = await ifThere(readFile(join(path, 'lock'), 'utf8'));
  const said = jsonText.pipe(holderShape).safeParse(written).data;
  // What a dead holder wrote says nothing about the next one.
  return said !== undefined && (await lifeOf(said.pid)) !== undefined ? said : undefined;
}

function unusable(path: string, cause: unknown): StateDirectoryError {
  const reason = cause instanceof Error ? cause.message.replace(/, .*/s, '') : String(cause);
  return new StateDirectoryError(
    `The state directory can't be used: ${path}: ${reason}. Set MUXWARDEN_STATE_DIR to a directory that you can write.`,
    { cause },
  );
}
