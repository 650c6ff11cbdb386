import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { execa } from 'execa';
import { startTicks } from '../support/tmux-server.ts';
import { killWhere } from './processes.ts';

/**
 * Linux accounts of one lab. Everything that a lab makes on the machine carries its id: accounts and
 * groups `mwl<id>-NAME`, `/etc/sudoers.d/mwl<id>` and `/opt/muxwarden-lab-<id>`.
 * The folder is made first and names the process that owns the lab, so a lab whose owner died is
 * recognised, and removed, by the next one.
 */
export interface User {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

export const rootOf = (id: string) => `/opt/muxwarden-lab-${id}`;
export const sudoersOf = (id: string) => `/etc/sudoers.d/mwl${id}`;
export const groupOf = (id: string) => `mwl${id}-members`;

/** Marks the lab as ours, before anything else of it exists. */
export async function claim(id: string): Promise<void> {
  const unnamed = `/opt/.${id}`;
  await mkdir(`${unnamed}/homes`, { recursive: true });
  await writeFile(`${unnamed}/owner`, `${process.pid} ${await startTicks(process.pid)}\n`);
  // Whatever our own umask: the accounts pass through here.
  await execa('chmod', ['-R', 'a+rX', unnamed]);
  await rename(unnamed, rootOf(id));
}

/** The service account, and members with homes that nobody else can enter. */
export async function makeAccounts<Name extends string>(
  id: string,
  members: readonly Name[],
): Promise<Readonly<Record<Name | 'service', User>>> {
  await execa('groupadd', [groupOf(id)]);
  const made: [string, User][] = [];
  for (const name of ['service', ...members]) {
    const account = `mwl${id}-${name === 'service' ? 'svc' : name}`;
    const home = `${rootOf(id)}/homes/${name}`;
    const groups = name === 'service' ? [] : ['-G', groupOf(id)];
    const shell = name === 'service' ? '/usr/sbin/nologin' : '/bin/sh';
    await execa('useradd', ['-U', '-M', '-d', home, '-s', shell, ...groups, account]);
    const [uid, gid] = (await execa('getent', ['passwd', account])).stdout.split(':').slice(2, 4);
    const user = { name: account, uid: Number(uid), gid: Number(gid), home };
    await execa('install', ['-d', '-m', '0700', '-o', account, '-g', account, home]);
    // Of an account that had this uid before.
    await rm(`/tmp/tmux-${uid}`, { recursive: true, force: true });
    made.push([name, user]);
  }
  return Object.fromEntries(made) as Record<Name | 'service', User>;
}

/** Ends the lab's processes and removes all that it made; also when it was made in part. */
export async function removeLab(id: string): Promise<void> {
  const users = (await accounts()).filter(({ name }) => name.startsWith(`mwl${id}-`));
  // Whatever a test has made of an account: nobody but its own uid is ended with it.
  const uids = new Set(users.map(({ uid }) => uid).filter((uid) => uid >= 1000));
  for (const rule of [sudoersOf(id), `${sudoersOf(id)}-provision`]) await rm(rule, { force: true });
  await killWhere(
    ({ uid, command }) =>
      uids.has(uid) || (command.startsWith('sudo ') && command.includes(`mwl${id}-`)),
  );
  for (const { name, uid } of users) {
    // Once the account is gone another lab may be given its uid, and have servers there.
    await rm(`/tmp/tmux-${uid}`, { recursive: true, force: true });
    // -f: a zombie that PID 1 has not reaped yet counts as a running process for userdel.
    await execa('userdel', ['-f', name], { reject: false });
  }
  const groups = (await readFile('/etc/group', 'utf8'))
    .split('\n')
    .map((line) => line.split(':')[0]);
  for (const group of groups.filter((name) => name?.startsWith(`mwl${id}-`)))
    await execa('groupdel', [group ?? ''], { reject: false });
  await rm(rootOf(id), { recursive: true, force: true });
  const left = (await accounts()).filter(({ name }) => name.startsWith(`mwl${id}-`));
  if (left.length > 0) throw new Error(`not removed: ${left.map(({ name }) => name).join(', ')}`);
}

/** Removes the labs of processes that no longer live. */
export async function removeLeftovers(): Promise<void> {
  const ids = new Set<string>();
  for (const name of await readdir('/opt').catch(() => [])) {
    const id = /^muxwarden-lab-([0-9a-f]{6})$/.exec(name)?.[1];
    if (id) ids.add(id);
  }
  for (const { name } of await accounts()) {
    const id = /^mwl([0-9a-f]{6})-/.exec(name)?.[1];
    if (id) ids.add(id);
  }
  for (const id of ids) if (!(await owned(id))) await removeLab(id);
}

async function owned(id: string): Promise<boolean> {
  const owner = await readFile(`${rootOf(id)}/owner`, 'utf8').catch(() => '');
  const [pid = '0', ticks] = owner.trim().split(' ');
  return ticks !== undefined && (await startTicks(Number(pid))) === ticks;
}

async function accounts(): Promise<readonly { name: string; uid: number }[]> {
  return (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => {
    const [name = '', , uid] = line.split(':');
    return { name, uid: Number(uid) };
  });
}
