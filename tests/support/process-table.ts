import { readdirSync, readFileSync } from 'node:fs';

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** What it calls itself: `tmux: server`. */
  readonly name: string;
  readonly command: string;
  readonly words: readonly string[];
}

/**
 * Every living process; a zombie is none. Without a promise for each file: on a machine with hundreds
 * of processes those take eight times as long.
 */
export async function processTable(): Promise<readonly ProcessEntry[]> {
  return processIds()
    .map(entryOf)
    .filter((entry) => entry !== undefined);
}

export const processIds = (): readonly number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);

/** A file of /proc; undefined when its process is gone. */
export function readOf(pid: number, name: 'stat' | 'status' | 'cmdline'): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return undefined;
  }
}

/** All that descend from that process. */
export async function descendants(ancestor: number): Promise<readonly ProcessEntry[]> {
  const table = await processTable();
  const found: ProcessEntry[] = [];
  for (let parents = [ancestor]; parents.length > 0; ) {
    const children = table.filter(({ parent }) => parents.includes(parent));
    found.push(...children);
    parents = children.map(({ pid }) => pid);
  }
  return found;
}

/** To a process that was seen a moment ago; one that has ended since is none to signal. */
export function signalSeen(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

function entryOf(pid: number): ProcessEntry | undefined {
  const [stat, line] = [readOf(pid, 'stat'), readOf(pid, 'cmdline')];
  if (stat === undefined || line === undefined) return undefined;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
  const words = line.split('\0');
  const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
  return { pid, parent: Number(fields[1]), name, command: words.join(' ').trim(), words };
}
