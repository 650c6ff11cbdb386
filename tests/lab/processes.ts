import { readdir, readFile } from 'node:fs/promises';
import { signalSeen } from '../support/process-table.ts';

/** A living process; a zombie is none. */
export interface LiveProcess {
  readonly pid: number;
  readonly uid: number;
  readonly command: string;
}

/** The processes that match, read from /proc. Those that end meanwhile are left out. */
export async function processesWhere(
  match: (process: LiveProcess) => boolean,
): Promise<readonly LiveProcess[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(pids.map(read));
  return found.filter((process) => process !== undefined).filter(match);
}

async function read(pid: number): Promise<LiveProcess | undefined> {
  try {
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    if (/^State:\s+[ZX]/m.test(status)) return undefined;
    const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]);
    const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
    return { pid, uid, command };
  } catch {
    return undefined;
  }
}

/** Kills what matches until nothing is left; what a killed process forks meanwhile is caught too. */
export async function killWhere(match: (process: LiveProcess) => boolean): Promise<void> {
  for (let round = 0; round < 100; round += 1) {
    const left = await processesWhere(match);
    if (left.length === 0) return;
    for (const { pid } of left) {
      signalSeen(pid, 'SIGKILL');
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('some processes of the lab can not be ended');
}
