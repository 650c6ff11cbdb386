import { UnsupportedError } from '../errors.ts';
import type { MemberTmux } from '../member-tmux.ts';
import type { ServerView } from '../model.ts';
import { type RepairPlan, refuseStopped } from './repair-plan.ts';

/**
 * SIGUSR1, at which tmux makes its socket again. It takes the path from whoever listens there, so the
 * helper sends it only while nobody does, and proves by a connection who listens afterwards.
 */
export async function recreateSocket(tmux: MemberTmux, server: ServerView): Promise<RepairPlan> {
  refuseStopped(server);
  const refusal = whyNot(server);
  if (refusal !== undefined) {
    throw new UnsupportedError(`${refusal} Nothing was sent.`, server.version);
  }
  const { pid, ticks } = tmux.targetProcess(server);
  return {
    request: `recreate-socket socket=${server.ref.pathHex} pid=${pid} ticks=${ticks}`,
    isDone: ({ status, reason }) => status === 'RUNNING' && reason === null,
    notSeen:
      'It was told to make its socket again and nobody reaches it there. See whether its directory can be written, and whether it has a descriptor left',
  };
}

function whyNot({ reason, pid, status }: ServerView): string | undefined {
  if (reason === 'SOCKET_LOST') return undefined;
  if (reason === 'PATH_TAKEN') {
    return `Another tmux server listens on its path by now, and would lose it to this one (pid ${pid}). End one of the two first.`;
  }
  if (reason === 'DESCRIPTORS_EXHAUSTED') {
    return `The tmux server (pid ${pid}) has no descriptor left to make a socket with. Raise its limit first (RAISE_DESCRIPTOR_LIMIT).`;
  }
  return `There is nothing to repair: the tmux server (pid ${pid}, ${status}) has its socket.`;
}
