import { escapeText } from '../../escape.ts';
import type { Survivor } from '../acts.ts';
import { HelperError } from '../member-helper.ts';
import type { MemberTmux } from '../member-tmux.ts';

/** A process by its pid and the start time that makes the pid mean one process. */
export interface ProcessId {
  readonly pid: number;
  readonly ticks: string;
}

/** What fits into one request line, and is more than anybody reads. */
const most = 150;

/**
 * Which of these still live: programs that a server's or pane's end did not end (`nohup`, `setsid`,
 * `trap '' HUP`). Undefined when nobody could look.
 */
export async function survivorsAmong(
  tmux: MemberTmux,
  processes: readonly ProcessId[],
): Promise<readonly Survivor[] | undefined> {
  if (processes.length === 0) return [];
  const pids = processes
    .slice(0, most)
    .map(({ pid, ticks }) => `${pid}-${ticks}`)
    .join(',');
  try {
    const { rows, failure } = await tmux.helper.act(`survivors pids=${pids}`);
    if (failure !== null) return undefined;
    return rows.flatMap(([kind, pid, command]) =>
      kind === 'survivor' ? [{ pid: Number(pid), command: shownCommand(command ?? '') }] : [],
    );
  } catch (error) {
    if (error instanceof HelperError) return undefined;
    throw error;
  }
}

export function shownCommand(hex: string): string {
  return escapeText(Buffer.from(hex, 'hex').toString('utf8').replaceAll('\0', ' ').trim()).slice(
    0,
    300,
  );
}
