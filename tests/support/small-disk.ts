import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

/** A file system of its own with little space (needs root), unmounted when disposed. */
export interface SmallDisk extends AsyncDisposable {
  readonly path: string;
  /** Leaves this many bytes, or less than a page more. */
  fill(leave: number): Promise<void>;
  free(): Promise<void>;
}

export async function mountSmallDisk(kibibytes: number): Promise<SmallDisk> {
  const path = await mkdtemp(join(tmpdir(), 'mw-disk-'));
  await execa('mount', ['-t', 'tmpfs', '-o', `size=${kibibytes}k,mode=0700`, 'tmpfs', path]);
  const filler = join(path, 'filler');
  return {
    path,
    async fill(leave) {
      await rm(filler, { force: true });
      const { bavail, bsize } = await statfs(path);
      await writeFile(filler, Buffer.alloc(Math.max(0, bavail * bsize - leave)));
    },
    free: () => rm(filler, { force: true }),
    async [Symbol.asyncDispose]() {
      await execa('umount', ['-l', path]);
      await rm(path, { recursive: true, force: true });
    },
  };
}
