import type { Config } from '../../config.ts';
import { changeable, lookAt } from '../install/files.ts';
import { hookFolders } from '../install/hook-folders.ts';
import { hooksHome } from '../install/places.ts';
import { bad, type Check, good } from './check.ts';
import { again } from './plain-file.ts';

/** Each member's folder for reports of hooks, as root has to have made it. */
export async function* hookFolderChecks(config: Config): AsyncIterable<Check> {
  if (config.hooksDir !== hooksHome) return;
  const name = `folders for hooks ${hooksHome}`;
  if ((await lookAt(hooksHome)) === undefined)
    return yield bad(name, 'is not there', `Make it, as root: ${again}`);
  const open = await changeable(hooksHome);
  if (open !== undefined)
    return yield bad(
      name,
      `${open} can be changed by others than root`,
      `As root: chown root:root ${open}; chmod go-w ${open}`,
    );
  const folders = await hookFolders();
  for (const { member, path, fault, isMendable } of folders) {
    if (fault === null) continue;
    yield bad(
      `folder for hooks ${path}`,
      fault,
      isMendable
        ? `As root: ${again} --hooks`
        : `Without it the tools of ${member} can't report. Move what is there away, or give ${member} a group of its own (groupadd, usermod --gid); then, as root: ${again} --hooks`,
    );
  }
  const right = folders.filter(({ fault }) => fault === null).length;
  yield good(name, `root's; ${right} of ${folders.length} members have theirs`);
}
