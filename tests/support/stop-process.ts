import { readOf } from './process-table.ts';
import { eventually } from './tmux-server.ts';

/** Stops a process, and is back when it is stopped: that is when it next gets to run, which may take a while. */
export async function stopProcess(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await eventually(() => isStopped(pid), `process ${pid} is stopped`);
}

function isStopped(pid: number): boolean {
  const stat = readOf(pid, 'stat') ?? '';
  return stat.startsWith(' T ', stat.lastIndexOf(')') + 1);
}
