import { chmod, lchown, mkdir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { lookAt } from './files.ts';
import { account, restartFile, stateDir, stateHome } from './places.ts';
import { accountNamed } from './privileges.ts';
import { inTheWay, type Step } from './step.ts';

/** What the service keeps, for its account alone. What an earlier installation left is taken over. */
export const stateStep: Step = {
  what: `state folder ${stateHome}`,
  made: { kind: 'state', path: stateHome },
  async look() {
    const found = await lookAt(stateHome);
    if (found === undefined) return 'made';
    if (!found.isDirectory()) throw inTheWay(stateHome, 'it is no folder');
    const owner = (await accountNamed(account))?.uid;
    if (found.uid === owner) return (found.mode & 0o7777) === 0o700 ? null : 'closed to others';
    const known = [stateDir, restartFile];
    const names = await readdir(stateHome);
    const kept = names.every((name) => known.includes(join(stateHome, name)));
    if (found.uid === 0 && kept) return 'taken over';
    throw inTheWay(stateHome, `it belongs to the user with id ${found.uid}`);
  },
  async apply() {
    const owner = await accountNamed(account);
    if (owner === undefined) throw new Error(`no account ${account}`);
    const before = await lookAt(stateHome);
    if (before === undefined) {
      await mkdir(stateHome, { mode: 0o700 });
      await giveTo(stateHome, owner);
      return () => rmdir(stateHome);
    }
    await chmod(stateHome, 0o700);
    await giveTo(stateHome, owner);
    return async () => {
      await giveTo(stateHome, before);
      await chmod(stateHome, before.mode & 0o7777);
    };
  },
};

/** With all that is in it, following no link; a file that has another name as well may be another's. */
export async function giveTo(
  path: string,
  { uid, gid }: { readonly uid: number; readonly gid: number },
): Promise<void> {
  const content = await readdir(path, { recursive: true, withFileTypes: true });
  for (const each of content) {
    const below = join(each.parentPath, each.name);
    const found = await lookAt(below);
    if (found?.isFile() && found.nlink > 1) continue;
    await lchown(below, uid, gid);
  }
  await lchown(path, uid, gid);
}
