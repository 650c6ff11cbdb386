import { readdir, readFile, rm, rmdir } from 'node:fs/promises';
import { ifThere } from '../../system-error.ts';
import { CommandError, type Io } from '../command.ts';
import { lookAt, sha256 } from './files.ts';
import { removeHookFolders } from './hook-folders.ts';
import { readManifest, writeManifest } from './manifest.ts';
import { account, hooksPath, restartPath, root, unit } from './places.ts';
import { accountNamed } from './privileges.ts';
import { giveTo } from './state-home.ts';
import { keyOf, type Made } from './step.ts';
import { systemdRuns } from './steps.ts';
import { must, tool } from './tool.ts';

/**
 * Takes away what install-system made, the last first, and nothing else: members, their groups of
 * before and their tmux servers go on. What was changed since is kept, and so is what the service has
 * written, for it holds the record; that is root's from then on.
 */
export async function uninstall(io: Io): Promise<number> {
  if (process.geteuid?.() !== 0)
    throw new CommandError('install-system is for root. Run it with sudo. Nothing was changed.');
  const entries = await readManifest();
  if (entries.length === 0) {
    io.out('Nothing was changed: install-system has made nothing here.');
    return 0;
  }
  await stopService(io);
  let kept = 0;
  let left = entries;
  for (const made of entries.toReversed()) {
    const why = await takeAway(made);
    io.out(why === null ? `removed  ${keyOf(made)}` : `kept     ${keyOf(made)}: ${why}`);
    if (why !== null) kept += 1;
    left = left.filter((each) => each !== made);
    // The folder of the list goes last.
    if (left.length > 0) await writeManifest(left);
  }
  if (await systemdRuns()) await must('systemctl', 'daemon-reload');
  io.out(kept === 0 ? 'Uninstalled.' : 'Uninstalled, but for what is named as kept.');
  return 0;
}

async function stopService(io: Io): Promise<void> {
  if (await systemdRuns()) {
    for (const name of [unit, restartPath, hooksPath]) {
      if ((await tool('systemctl', 'cat', name)).exitCode !== 0) continue;
      await must('systemctl', 'disable', '--now', '--quiet', name);
      io.out(`stopped  ${name}`);
    }
  }
  const owner = await accountNamed(account);
  const pids = owner === undefined ? [] : await processesOf(owner.uid);
  if (pids.length === 0) return;
  throw new CommandError(
    `Processes of ${account} still run: ${pids.join(', ')}. Stop the service, and run this again. Nothing was removed.`,
  );
}

async function processesOf(uid: number): Promise<readonly string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const status = (await ifThere(readFile(`/proc/${pid}/status`, 'utf8'))) ?? '';
      const dead = /^State:\s+[ZX]/m.test(status);
      return !dead && new RegExp(`^Uid:.*\\b${uid}\\b`, 'm').test(status) ? pid : undefined;
    }),
  );
  return found.filter((pid) => pid !== undefined);
}

/** Null: it is gone. Else why it is kept. */
async function takeAway(made: Made): Promise<string | null> {
  switch (made.kind) {
    case 'file':
      return takeFile(made.path, made.sha256, made.path.startsWith(`${root}/`));
    case 'settings':
      return takeFile(made.path, made.sha256, false);
    case 'hooks':
      return removeHookFolders();
    case 'tree':
      await rm(made.path, { recursive: true, force: true });
      return null;
    case 'directory':
      return takeDirectory(made.path);
    case 'state':
      return takeState(made.path);
    case 'account':
      if ((await accountNamed(made.name)) !== undefined) await must('userdel', made.name);
      return null;
    case 'group':
      if ((await tool('getent', 'group', made.name)).exitCode === 0)
        await must('groupdel', made.name);
      return null;
  }
}

async function takeFile(path: string, hash: string, isOurs: boolean): Promise<string | null> {
  const found = await lookAt(path);
  if (found === undefined) return null;
  const changed = !found.isFile() || sha256(await readFile(path)) !== hash;
  if (changed && !isOurs) return 'it was changed since';
  await rm(path);
  return null;
}

async function takeDirectory(path: string): Promise<string | null> {
  if ((await lookAt(path)) === undefined) return null;
  const content = await readdir(path);
  if (content.length === 1 && content[0] === 'installed.json') await writeManifest([]);
  else if (content.length > 0) return `there is more in it: ${content.join(', ')}`;
  await rmdir(path);
  return null;
}

async function takeState(path: string): Promise<string | null> {
  if ((await lookAt(path)) === undefined) return null;
  if ((await readdir(path)).length === 0) {
    await rmdir(path);
    return null;
  }
  await giveTo(path, { uid: 0, gid: 0 });
  return `it holds the record, for root now. Without it: rm -r ${path}`;
}
