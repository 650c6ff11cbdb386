import { readFile } from 'node:fs/promises';

/**
 * How long the main thread of a process has been ready to run and had no core, in milliseconds since
 * its start (proc_pid_schedstat, the second figure; 0 where the kernel keeps none). What others on the
 * machine took, so that a time bound can be about the program alone.
 */
export async function waitedForCoreMs(pid: number | 'self'): Promise<number> {
  const text = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => '');
  return Number(text.split(' ')[1] ?? 0) / 1e6;
}
