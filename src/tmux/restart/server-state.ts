import { escapeText } from '../../escape.ts';
import type { ServerState } from '../acts.ts';
import type { MemberTmux } from '../member-tmux.ts';
import type { MemberListing, ServerRef, ServerView } from '../model.ts';

/** A server as the audit log keeps it. */
export function stateOf(server: ServerView): ServerState {
  return {
    generation: server.generation,
    pid: server.pid,
    version: server.version,
    status: server.status,
    sessionCount: server.listing.state === 'UNKNOWN' ? null : (server.sessions?.length ?? null),
  };
}

/** Where a server is now. Asks; what can't be looked at is UNKNOWN, and what was never there ABSENT. */
export async function lookAtServer(tmux: MemberTmux, ref: ServerRef): Promise<ServerState> {
  const since = tmux.clock.now();
  const listing = await tmux.refresh();
  const unknown = { generation: null, pid: null, version: null, sessionCount: null };
  if (!wasLookedAt(listing, since)) return { ...unknown, status: 'UNKNOWN' };
  const server = tmux.server(ref);
  return server === undefined ? { ...unknown, status: 'ABSENT' } : stateOf(server);
}

/** Whether this listing is from a look that succeeded since then, and so may say what is not there. */
export function wasLookedAt({ servers, status }: MemberListing, since: number): boolean {
  const { state, observedAt } = status;
  return (
    servers !== null && state === 'FRESH' && observedAt !== null && observedAt.getTime() >= since
  );
}

/** `member's socket path`, for the audit log: bounded and escaped. */
export function serverLabel(server: ServerView): string {
  return escapeText(server.socketPath).slice(0, 300);
}

export function isOutOfDescriptors(server: ServerView): boolean {
  if (server.reason === 'DESCRIPTORS_EXHAUSTED') return true;
  const { openFiles, openFilesLimit } = server;
  return openFiles !== null && openFilesLimit !== null && openFiles >= openFilesLimit - 2;
}
