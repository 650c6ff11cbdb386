import { TmuxServerStuckError } from '../errors.ts';
import type { MemberTmux } from '../member-tmux.ts';
import type { ServerView } from '../model.ts';

/** One request to the helper that mends a server, and how it shows that it did. */
export interface RepairPlan {
  readonly request: string;
  /** Whether this look shows that it helped. */
  readonly isDone: (server: ServerView) => boolean;
  /** Said with the pid where no look showed it. */
  readonly notSeen: string;
}

/** @throws UnsupportedError, TmuxServerStuckError, ListingUnknownError where it is not to be done */
export type PlanRepair = (tmux: MemberTmux, server: ServerView) => Promise<RepairPlan>;

/** A stopped server can't show that it was repaired, and what it is sent takes effect later. */
export function refuseStopped({ status, pid, socketPath }: ServerView): void {
  if (status !== 'STOPPED') return;
  throw new TmuxServerStuckError(
    pid ?? 0,
    status,
    socketPath,
    false,
    `The tmux server is stopped (pid ${pid}); nothing was sent, for it would take effect later. Let it run first (CONTINUE_STOPPED).`,
  );
}
