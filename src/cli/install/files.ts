import { createHash } from 'node:crypto';
import {
  chmod,
  chown,
  lstat,
  mkdir,
  readFile,
  rename,
  rm,
  rmdir,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ifThere } from '../../system-error.ts';
import { inTheWay, type Made, type Step } from './step.ts';

export const sha256 = (content: string | Buffer) =>
  createHash('sha256').update(content).digest('hex');

/** Undefined: nothing is there. */
export const lookAt = (path: string) => ifThere(lstat(path));

/** A folder of root's; whatever is in it is not looked at. */
export function directoryStep(path: string): Step {
  return {
    what: `folder ${path}`,
    made: { kind: 'directory', path },
    async look() {
      const found = await lookAt(path);
      if (found === undefined) return 'made';
      if (!found.isDirectory()) throw inTheWay(path, 'it is no folder');
      if (found.uid === 0 && (found.mode & 0o022) === 0) return null;
      throw inTheWay(path, 'others than root can write in it');
    },
    async apply() {
      await mkdir(path, { mode: 0o755 });
      await chmod(path, 0o755);
      return () => rmdir(path);
    },
  };
}

export interface FileStep {
  readonly what: string;
  readonly path: string;
  readonly content: string | Buffer;
  readonly mode: number;
  /** Nobody else's to change: whatever became of it, it is made again. */
  readonly ours?: true;
  /** Looks at the content before it gets its name. @throws CommandError: it is not used */
  readonly check?: (beside: string) => Promise<unknown>;
  /** After it has its name. @throws CommandError: the old one is put back */
  readonly after?: () => Promise<unknown>;
}

/** A file of root's, made beside, checked, and put in place in one step. */
export function fileStep({ what, path, content, mode, ours, check, after }: FileStep): Step {
  const hash = sha256(content);
  return {
    what: `${what} ${path}`,
    made: { kind: 'file', path, sha256: hash },
    ...(after && { after }),
    async look(before) {
      const found = await lookAt(path);
      if (found === undefined) return 'made';
      if (!found.isFile()) throw inTheWay(path, 'it is no plain file');
      const now = sha256(await readFile(path));
      if (now === hash)
        return found.uid === 0 && (found.mode & 0o7777) === mode
          ? null
          : 'given its owner and mode';
      if (before?.kind === 'file' && (ours || before.sha256 === now)) return 'updated';
      throw inTheWay(path, before ? 'it was changed since' : 'muxwarden did not make it');
    },
    async apply() {
      const old = await oldOf(path);
      const restore = async () => {
        if (old === undefined) await rm(path, { force: true });
        else await put(path, old.content, old.mode, old);
      };
      await put(path, content, mode, { uid: 0, gid: 0 }, check);
      try {
        await after?.();
      } catch (cause) {
        await restore();
        throw cause;
      }
      return async () => {
        await restore();
        await after?.();
      };
    },
  };
}

/** A file of root's to change: made once, and left as it is from then on. */
export function settingsStep(what: string, path: string, content: string): Step {
  const file = fileStep({ what, path, content, mode: 0o644 });
  const made: Made = { kind: 'settings', path, sha256: sha256(content) };
  return {
    ...file,
    made,
    async look() {
      const found = await lookAt(path);
      if (found === undefined) return 'made';
      if (!found.isFile()) throw inTheWay(path, 'it is no plain file');
      if (found.uid === 0 && (found.mode & 0o022) === 0) return null;
      throw inTheWay(path, 'others than root can write it');
    },
  };
}

/** Takes away a file that an earlier installation made; settings that were changed stay. */
export function withoutStep({ what, made, after }: Step): Step {
  if (!('sha256' in made)) throw new TypeError(`${what} is no file`);
  const { path } = made;
  const isChanged = async (hash: string) => {
    const found = await lookAt(path);
    return found !== undefined && (!found.isFile() || sha256(await readFile(path)) !== hash);
  };
  return {
    ...{ what, made, takes: true },
    async look(before) {
      if (before === undefined || !('sha256' in before)) return null;
      if (!(await isChanged(before.sha256))) return 'removed';
      if (made.kind === 'settings') return 'left';
      throw inTheWay(path, 'it was changed since');
    },
    async apply() {
      if (made.kind === 'settings' && (await isChanged(made.sha256))) return async () => {};
      const old = await oldOf(path);
      await rm(path, { force: true });
      await after?.();
      return async () => {
        if (old !== undefined) await put(path, old.content, old.mode, old);
        await after?.();
      };
    },
  };
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

async function oldOf(path: string) {
  const found = await lookAt(path);
  if (found === undefined) return undefined;
  const { uid, gid, mode } = found;
  return { content: await readFile(path), mode: mode & 0o7777, uid, gid };
}

async function put(
  path: string,
  content: string | Buffer,
  mode: number,
  { uid, gid }: Owner,
  check?: FileStep['check'],
): Promise<void> {
  // A name with a dot in front: sudo and systemd do not read it.
  const beside = join(dirname(path), `.${basename(path)}.new`);
  await rm(beside, { force: true });
  try {
    await writeFile(beside, content, { mode: 0o600, flag: 'wx' });
    await chown(beside, uid, gid);
    await chmod(beside, mode);
    await check?.(beside);
    await rename(beside, path);
  } finally {
    await rm(beside, { force: true });
  }
}

/** The first of this path and the folders above it that others than root could change. */
export async function changeable(path: string): Promise<string | undefined> {
  for (let each = path; ; each = dirname(each)) {
    const found = await lookAt(each);
    const sticky = found !== undefined && (found.mode & 0o1000) !== 0 && each !== path;
    const open = found !== undefined && (found.mode & 0o022) !== 0 && !sticky;
    if (found !== undefined && !found.isSymbolicLink() && (found.uid !== 0 || open)) return each;
    if (each === dirname(each)) return undefined;
  }
}
