import { UnsupportedError } from '../errors.ts';
import type { MemberTmux } from '../member-tmux.ts';
import type { ServerView } from '../model.ts';
import type { RepairPlan } from './repair-plan.ts';

/** SIGCONT, by pidfd. What was sent while it was stopped takes effect then: it may end. */
export async function continueStopped(tmux: MemberTmux, server: ServerView): Promise<RepairPlan> {
  if (server.status !== 'STOPPED') {
    throw new UnsupportedError(
      `There is nothing to repair: the tmux server (pid ${server.pid}) is not stopped but ${server.status}. Nothing was sent.`,
      server.version,
    );
  }
  const { pid, ticks } = tmux.targetProcess(server);
  return {
    request: `signal pid=${pid} ticks=${ticks} signal=cont`,
    isDone: ({ status }) => status !== 'STOPPED',
    notSeen:
      'It was told to run and is stopped still, or again: a debugger holds it, or somebody stops it. Root can see who',
  };
}
