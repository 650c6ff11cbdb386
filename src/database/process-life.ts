import { readFile } from 'node:fs/promises';
import { ifThere, isSystemError } from '../system-error.ts';

/**
 * A process is named by its id and its start time in clock ticks since boot: ids come back. A
 * zombie is dead, also where PID 1 reaps late.
 */
export interface ProcessLife {
  readonly pid: number;
  readonly startTicks: string;
}

/** The life that this id names now; undefined when nothing lives under it. */
export async function lifeOf(pid: number): Promise<ProcessLife | undefined> {
  const stat = await ifThere(readFile(`/proc/${pid}/stat`, 'utf8')).catch((cause) => {
    // Another user's, where /proc hides those: no life that anything here is about.
    if (isSystemError(cause, 'EACCES', 'EPERM')) return undefined;
    throw cause;
  });
  // The command in parentheses may itself hold parentheses and spaces.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, startTicks] = [fields?.[0], fields?.[19]];
  if (state === undefined || startTicks === undefined || /[ZXx]/.test(state)) return undefined;
  return { pid, startTicks };
}

export async function isAlive(life: ProcessLife): Promise<boolean> {
  return (await lifeOf(life.pid))?.startTicks === life.startTicks;
}
