import type { BlockAnswer } from './control-block.ts';
import { type ControlLine, controlLine } from './control-line.ts';

/** What a session holds, as tmux says on its control connection. */
export interface RosterPane {
  readonly pane: number;
  readonly columns: number;
  readonly rows: number;
  /** 0 for a dead pane of 3.8. */
  readonly pid: number;
  readonly dead: boolean;
  readonly exitStatus: number | null;
  readonly exitSignal: number | null;
}

/** Numbers only: nothing that a member wrote can be in the answer. */
export function rosterLine(session: number): ControlLine {
  return controlLine`list-panes -s -t '$${session}:' -F '#{pane_id} #{pane_width} #{pane_height} #{pane_pid} #{pane_dead} #{pane_dead_status} #{pane_dead_signal}'`;
}

/** Undefined when the answer is none of a roster's. */
export function readRoster(answer: BlockAnswer): ReadonlyMap<number, RosterPane> | undefined {
  if (!answer.ok) return undefined;
  const roster = new Map<number, RosterPane>();
  for (const line of answer.lines) {
    const fields = /^%(\d+) (\d+) (\d+) (\d*) ([01]?) (\d*) ([\dA-Z]*)$/.exec(
      line.toString('latin1'),
    );
    if (fields === null) return undefined;
    const [, pane, columns, rows, pid, dead, status, signal] = fields;
    roster.set(Number(pane), {
      pane: Number(pane),
      columns: Number(columns),
      rows: Number(rows),
      pid: Number(pid),
      dead: dead === '1',
      exitStatus: status ? Number(status) : null,
      exitSignal: signal && /^\d+$/.test(signal) ? Number(signal) : null,
    });
  }
  return roster;
}

/**
 * Subscriptions, told within a second: to what the roster asks of the session, and to what a listing
 * shows of the whole server and changes without a notification. Titles are not in it: programs
 * move them all the time. Their values are never read; text in them is cleaned so that it can't
 * begin a line. From tmux 3.2 on; before, it answers an error.
 */
export const watchSessionLine = controlLine`refresh-client -B 'session::#{W:#{window_id}#{P:#{pane_id}.#{pane_pid}.#{pane_dead} }}'`;
export const watchServerLine = controlLine`refresh-client -B 'server::#{s/[^ -~]/?/:#{S:#{session_id}#{W:#{window_id}.#{window_active}#{P:#{pane_id}.#{pane_active}.#{pane_pid}.#{pane_dead}.#{pane_in_mode}.#{pane_width}x#{pane_height}.#{pane_current_command}.#{@agent_state} }}}}'`;

/** tmux drops and pauses output that we can't take for so long, instead of keeping all of it. From 3.2 on. */
export const pauseAfterLine = controlLine`refresh-client -f pause-after=10`;

export function continueLine(pane: number): ControlLine {
  return controlLine`refresh-client -A '%${pane}:continue'`;
}
/** Drops what waits, and all that comes until `continue`; the program goes on. From 3.2 on. */
export function pauseLine(pane: number): ControlLine {
  return controlLine`refresh-client -A '%${pane}:pause'`;
}

export const messagesLine = controlLine`show-messages`;
/** Tells whether a pane that left the session is still somewhere. */
export function paneLine(pane: number): ControlLine {
  return controlLine`display-message -p -t %${pane} '#{pane_id}'`;
}

/**
 * Whether somebody killed the pane, by tmux's own log of commands (newest first, 3.2 and later):
 * looks at what was run since we last asked for a roster. False also where tmux keeps no such log;
 * a pane whose program ended is gone without any command.
 */
export function wasKilled(messages: BlockAnswer, pane: number, ownName: string): boolean {
  let rosters = 0;
  for (const line of messages.lines.slice(0, 200)) {
    const text = line.toString('latin1');
    const own = text.includes(`${ownName} command: `);
    // The first roster is the one by which the pane was missed.
    if (own && text.includes(' command: list-panes -s ')) rosters += 1;
    if (rosters > 1) return false;
    const kill = /(?:command|key [^:]*): kill-(?:pane|window)\b(.*)$/.exec(text);
    if (own || kill === null) continue;
    const id = /-t "?%(\d+)"?/.exec(kill[1] ?? '')?.[1];
    // `kill-pane -a -t %1` kills all but that one.
    const all = /(?:^| )-[A-Za-su-z]*a/.test(kill[1] ?? '');
    if (id === undefined || (Number(id) === pane) !== all) return true;
  }
  return false;
}
