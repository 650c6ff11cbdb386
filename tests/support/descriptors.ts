import { readdir } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { execa } from 'execa';

/** How a program is run, as whoever owns the process: not even root may here, without its capabilities. */
type Run = (file: string, parameters: readonly string[]) => PromiseLike<unknown>;

/**
 * Leaves a process no descriptor more than it has: its soft limit becomes the lowest number that is
 * free. Of several looks the lowest counts, for a client that has just left may still be held.
 *
 * With `spare: 2` a tmux up to 3.5 accepts one client more, can do nothing for it, and spins.
 */
export async function leaveNoDescriptor(
  pid: number,
  { hard, spare = 0, run = execa }: { hard?: number; spare?: number; run?: Run } = {},
): Promise<void> {
  let lowest = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 10; look++) {
    const used = new Set(await readdir(`/proc/${pid}/fd`));
    let free = 0;
    for (let left = spare; used.has(String(free)) || left-- > 0; ) free++;
    lowest = Math.min(lowest, free);
    await wait(50);
  }
  await run('prlimit', ['--pid', String(pid), `--nofile=${lowest}:${hard ?? ''}`]);
}
