import { processIds, readOf, signalSeen } from '../support/process-table.ts';

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
  return processIds()
    .map(look)
    .filter((process) => process !== undefined)
    .filter(match);
}

function look(pid: number): LiveProcess | undefined {
  const [status, line] = [readOf(pid, 'status'), readOf(pid, 'cmdline')];
  if (status === undefined || line === undefined || /^State:\s+[ZX]/m.test(status))
    return undefined;
  const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]);
  return { pid, uid, command: line.replaceAll('\0', ' ').trim() };
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
