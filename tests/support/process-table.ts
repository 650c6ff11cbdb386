import { readdir, readFile } from 'node:fs/promises';

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** What it calls itself: `tmux: server`. */
  readonly name: string;
  readonly command: string;
  readonly words: readonly string[];
}

/** Every living process; a zombie is none. */
export async function processTable(): Promise<readonly ProcessEntry[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const entries = await Promise.all(pids.map(entryOf));
  return entries.filter((entry) => entry !== undefined);
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

async function entryOf(pid: number): Promise<ProcessEntry | undefined> {
  const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => undefined);
  const [stat, line] = await Promise.all([read('stat'), read('cmdline')]);
  if (stat === undefined || line === undefined) return undefined;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
  const words = line.split('\0');
  const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
  return { pid, parent: Number(fields[1]), name, command: words.join(' ').trim(), words };
}
