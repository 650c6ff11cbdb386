import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Writes a file so that, whatever happens, it is the old one or the new one, whole and with this
 * mode: written beside, synced, renamed, and the directory synced.
 */
export async function writeFileDurably(path: string, text: string, mode: number): Promise<void> {
  const beside = `${path}.${process.pid}.new`;
  await rm(beside, { force: true });
  const file = await open(beside, 'wx', mode);
  try {
    await file.writeFile(text);
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(beside, path);
  const directory = await open(dirname(path), 'r');
  await directory.sync().finally(() => directory.close());
}
