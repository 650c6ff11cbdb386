import { chmod, chown, mkdir, readdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError, type Io } from '../command.ts';
import { lookAt } from './files.ts';
import { account, hooksHome, membersGroup } from './places.ts';
import { type Account, accountNamed, accounts, membersOf } from './privileges.ts';
import { inTheWay, type Step } from './step.ts';

/**
 * Where members' own tools report (docs/hooks.md): for each account in the members' group a folder of
 * the service's that nobody but that member may pass. Root alone can make it. Whoever root puts into
 * the group gets one: by the installation, and from then on by a unit that watches /etc/group.
 */
export interface HookFolder {
  readonly member: string;
  readonly path: string;
  /** The member's own group. */
  readonly gid: number;
  /** What it is or has that it should not; null: all is well. */
  readonly fault: string | null;
  /** Whether that can be mended without touching anything of anybody else. */
  readonly isMendable: boolean;
}

const mode = 0o2710;

export async function hookFolders(): Promise<readonly HookFolder[]> {
  const all = await accounts();
  const service = await accountNamed(account);
  const found: HookFolder[] = [];
  for (const name of (await membersOf(membersGroup)) ?? []) {
    const member = await accountNamed(name);
    if (member === undefined || name === account) continue;
    const path = join(hooksHome, name);
    const shared = await sharedGroup(member, all);
    const about = shared
      ? { fault: shared, isMendable: false }
      : await faultOf(path, member.gid, service?.uid);
    found.push({ member: name, path, gid: member.gid, ...about });
  }
  return found;
}

/** Whoever else is in it could report in the member's name. */
async function sharedGroup(
  { name, uid, gid }: Account,
  all: readonly Account[],
): Promise<string | null> {
  const others = [
    ...((await membersOf(String(gid))) ?? []).filter((each) => each !== name),
    ...all.filter((each) => each.gid === gid && each.uid !== uid).map((each) => each.name),
  ];
  return others.length === 0
    ? null
    : `is not made: ${name}'s own group has others in it (${others.join(', ').slice(0, 100)})`;
}

async function faultOf(path: string, gid: number, service: number | undefined) {
  const found = await lookAt(path);
  if (found === undefined) return { fault: 'is not there', isMendable: true };
  if (!found.isDirectory()) return { fault: 'is no folder', isMendable: false };
  if (found.uid !== service) {
    // As a run that was cut off leaves it; others than root can't look into it.
    const isUnfinished =
      found.uid === 0 && process.geteuid?.() === 0 && (await readdir(path)).length === 0;
    return { fault: `belongs to the user with id ${found.uid}`, isMendable: isUnfinished };
  }
  const bits = found.mode & 0o7777;
  if (bits === mode && found.gid === gid) return { fault: null, isMendable: false };
  const fault = `has mode ${bits.toString(8).padStart(4, '0')} and the group with id ${found.gid}`;
  return { fault, isMendable: true };
}

/** Gives what takes it back. */
async function mend({ path, gid }: HookFolder): Promise<() => Promise<unknown>> {
  const service = await accountNamed(account);
  if (service === undefined)
    throw new CommandError(`There is no account ${account}. Run install-system first.`);
  const before = await lookAt(path);
  await mkdir(path, { mode: 0o700 }).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EEXIST') throw cause;
  });
  await chown(path, service.uid, gid);
  await chmod(path, mode);
  return async () => {
    if (before === undefined) return remove(path);
    await chown(path, before.uid, before.gid);
    await chmod(path, before.mode & 0o7777);
  };
}

async function remove(path: string): Promise<void> {
  await rm(join(path, 'socket'), { force: true });
  await rmdir(path);
}

export const hooksStep: Step = {
  what: `folders for reports of hooks ${hooksHome}`,
  made: { kind: 'hooks', path: hooksHome },
  async look() {
    const found = await lookAt(hooksHome);
    if (found === undefined) return 'made';
    if (!found.isDirectory()) throw inTheWay(hooksHome, 'it is no folder');
    if (found.uid !== 0 || (found.mode & 0o022) !== 0)
      throw inTheWay(hooksHome, 'others than root can write in it');
    return (await hookFolders()).some(({ isMendable }) => isMendable) ? 'completed' : null;
  },
  async apply() {
    const isNew = (await lookAt(hooksHome)) === undefined;
    const undo: (() => Promise<unknown>)[] = [];
    const back = async () => {
      for (const each of undo.reverse()) await each();
    };
    try {
      if (isNew) {
        await mkdir(hooksHome);
        undo.push(() => rmdir(hooksHome));
        await chmod(hooksHome, 0o711);
      }
      for (const folder of await hookFolders())
        if (folder.isMendable) undo.push(await mend(folder));
    } catch (cause) {
      await back();
      throw cause;
    }
    return back;
  },
};

/** What the unit does: until the groups stay as they were when it looked. */
export async function completeHookFolders(io: Io): Promise<void> {
  if (process.geteuid?.() !== 0)
    throw new CommandError('install-system is for root. Run it with sudo. Nothing was changed.');
  for (let seen = ''; ; ) {
    const now = await lookAt('/etc/group');
    const version = `${now?.ino} ${now?.mtimeMs}`;
    if (version === seen) return;
    seen = version;
    for (const folder of await hookFolders()) {
      if (folder.isMendable) await mend(folder);
      if (folder.fault !== null)
        io.out(`${folder.isMendable ? 'made' : 'left'}     ${folder.path}: it ${folder.fault}`);
    }
  }
}

/** All that are the service's own. Null: nothing is left; else what is. */
export async function removeHookFolders(): Promise<string | null> {
  if ((await lookAt(hooksHome)) === undefined) return null;
  const service = await accountNamed(account);
  const kept: string[] = [];
  for (const name of await readdir(hooksHome)) {
    const path = join(hooksHome, name);
    const found = await lookAt(path);
    if (found?.isDirectory() && found.uid === service?.uid) await remove(path);
    else kept.push(name);
  }
  if (kept.length > 0) return `there is more in it: ${kept.join(', ')}`;
  await rmdir(hooksHome);
  return null;
}
