import { createHash } from 'node:crypto';
import {
  chmod,
  copyFile,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { z } from 'zod';
import { jsonText } from '../../json-text.ts';
import { ifThere } from '../../system-error.ts';
import { CommandError } from '../command.ts';
import { lookAt, sha256 } from './files.ts';
import { program } from './places.ts';
import { inTheWay, type Step } from './step.ts';

/**
 * The program itself, copied with what it needs and the Node that runs it, so that the service is
 * root's from end to end: whoever could change the clone or package that it was installed from could
 * otherwise act as every member. `made-from` in it says of what it is a copy.
 */

/** Where this very program is: a clone, a package, or the installed copy itself. */
export const ownRoot = join(import.meta.dirname, '../../..');
const mark = join(program, 'made-from');
const parts = ['bin', 'docs', 'libexec', 'migrations', 'package.json', 'schema.graphql'];

export async function programStep(): Promise<Step> {
  const from = await realpath(ownRoot);
  return {
    what: `program ${program}`,
    made: { kind: 'tree', path: program },
    async look(before) {
      const found = await lookAt(program);
      if (found === undefined) return 'made';
      if (!found.isDirectory()) throw inTheWay(program, 'it is no folder');
      if (from === program) return null;
      const made = await ifThere(readFile(mark, 'utf8'));
      if (made === undefined && before === undefined)
        throw inTheWay(program, 'muxwarden did not make it');
      return made === (await digest(from)) ? null : 'updated';
    },
    async apply() {
      const beside = `${program}.new`;
      const old = `${program}.old`;
      for (const each of [beside, old]) await rm(each, { recursive: true, force: true });
      try {
        await copyProgram(from, beside);
      } catch (cause) {
        await rm(beside, { recursive: true, force: true });
        throw cause;
      }
      const replaced = (await lookAt(program)) !== undefined;
      if (replaced) await rename(program, old);
      await rename(beside, program);
      return async () => {
        await rm(program, { recursive: true, force: true });
        if (replaced) await rename(old, program);
      };
    },
  };
}

/** Once all else is well. */
export const dropOldProgram = () => rm(`${program}.old`, { recursive: true, force: true });

const sources = async (from: string) => [
  ...parts,
  (await lookAt(join(from, 'src'))) === undefined ? 'dist' : 'src',
];

async function copyProgram(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o755 });
  for (const part of await sources(from)) {
    if ((await lookAt(join(from, part))) !== undefined)
      await copy(join(from, part), join(to, part));
  }
  for (const folder of await neededPackages(from)) {
    const target = join(to, targetOf(from, folder));
    await mkdir(dirname(target), { recursive: true, mode: 0o755 });
    await copy(folder, target, true);
  }
  await copy(process.execPath, join(to, 'node'));
  await chmod(join(to, 'node'), 0o755);
  await writeFile(join(to, 'made-from'), await digest(from), { mode: 0o644 });
  await chmod(join(to, 'made-from'), 0o644);
}

/** Beside its own packages, or among those of another. */
function targetOf(from: string, folder: string): string {
  const below = relative(from, folder);
  return below.startsWith('..') ? join('node_modules', relative(dirname(from), folder)) : below;
}

/** As root's, readable for all and writable for none but root, whatever it was. */
async function copy(from: string, to: string, isPackage = false): Promise<void> {
  const found = await lookAt(from);
  if (found?.isSymbolicLink()) return symlink(await readlink(from), to);
  if (!found?.isDirectory()) {
    await copyFile(from, to);
    return chmod(to, ((found?.mode ?? 0) & 0o111) === 0 ? 0o644 : 0o755);
  }
  await mkdir(to, { mode: 0o755 });
  await chmod(to, 0o755);
  // Packages within a package are found, and copied, by name.
  const names = (await readdir(from)).filter((name) => !isPackage || name !== 'node_modules');
  await Promise.all(names.map((name) => copy(join(from, name), join(to, name))));
}

const packageText = jsonText.pipe(
  z.object({
    name: z.string().optional(),
    version: z.string().optional(),
    dependencies: z.record(z.string(), z.string()).default({}),
    optionalDependencies: z.record(z.string(), z.string()).default({}),
    peerDependencies: z.record(z.string(), z.string()).default({}),
    peerDependenciesMeta: z
      .record(z.string(), z.object({ optional: z.boolean().optional() }))
      .default({}),
  }),
);
const packageOf = async (folder: string) =>
  packageText.parse(await readFile(join(folder, 'package.json'), 'utf8'));

/** Folders of all packages that it takes to run, each once; Node itself is taken as it runs. */
async function neededPackages(from: string): Promise<readonly string[]> {
  const found = new Set<string>();
  const missing: string[] = [];
  const visit = async (folder: string): Promise<void> => {
    const about = await packageOf(folder);
    const optional = (name: string) =>
      name in about.optionalDependencies || about.peerDependenciesMeta[name]?.optional === true;
    const names = {
      ...about.dependencies,
      ...about.optionalDependencies,
      ...about.peerDependencies,
    };
    for (const name of Object.keys(names).sort()) {
      if (/^node-linux-/.test(name)) continue;
      const needed = await resolve(folder, name);
      if (needed === undefined && !optional(name)) missing.push(name);
      if (needed === undefined || found.has(needed)) continue;
      found.add(needed);
      await visit(needed);
    }
  };
  await visit(from);
  if (missing.length === 0) return [...found].sort();
  throw new CommandError(
    `${from} is not whole: ${missing.join(', ')} can't be found. Run npm ci there. Nothing was changed.`,
  );
}

/** As Node looks for it. */
async function resolve(from: string, name: string): Promise<string | undefined> {
  for (let folder = from; ; folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', name);
    if ((await lookAt(join(candidate, 'package.json'))) !== undefined) return candidate;
    if (folder === dirname(folder)) return undefined;
  }
}

/** What it would be a copy of: its own files by content, packages and Node by version. */
async function digest(from: string): Promise<string> {
  const hash = createHash('sha256');
  for (const part of await sources(from)) {
    for (const file of await filesBelow(join(from, part)))
      hash.update(`${relative(from, file)} ${sha256(await readFile(file))}\n`);
  }
  for (const folder of await neededPackages(from)) {
    const { name, version } = await packageOf(folder);
    hash.update(`${targetOf(from, folder)} ${name} ${version}\n`);
  }
  hash.update(process.version);
  return `${hash.digest('hex')}\n`;
}

async function filesBelow(path: string): Promise<readonly string[]> {
  const found = await lookAt(path);
  if (!found?.isDirectory()) return found?.isFile() ? [path] : [];
  const below = await readdir(path, { recursive: true, withFileTypes: true });
  return below
    .filter((each) => each.isFile())
    .map((each) => join(each.parentPath, each.name))
    .sort();
}
