import { ListingUnknownError, NotFoundError, StaleGenerationError } from '../errors.ts';
import { type LocatedPane, type MemberTmux, serverKey } from '../member-tmux.ts';
import type { PaneRef } from '../model.ts';
import type { PaneEnd } from './pane-log.ts';

/**
 * Where a pane is, after its stream broke off. `end` names the largest thing that is gone: the
 * server, else the session in which it was watched, else the pane.
 */
export type Whereabouts =
  | { readonly kind: 'there'; readonly located: LocatedPane }
  | { readonly kind: 'ended'; readonly end: PaneEnd }
  | { readonly kind: 'unknown'; readonly error: ListingUnknownError };

/** Asks, and believes only what was looked at after the asking. */
export async function whereabouts(
  tmux: MemberTmux,
  pane: PaneRef,
  session: number,
): Promise<Whereabouts> {
  const first = await look(tmux, pane, session);
  // Between the end of a server and its next start, a restart of ours holds the lock.
  const key = serverKey({ pathHex: pane.pathHex });
  if (first.kind !== 'ended' || first.end.reason !== 'SERVER_LOST') return first;
  if (tmux.locks.holder(key) === undefined) return first;
  (await tmux.locks.acquire(key))[Symbol.dispose]();
  return look(tmux, pane, session);
}

async function look(tmux: MemberTmux, pane: PaneRef, session: number): Promise<Whereabouts> {
  const since = tmux.clock.now();
  const listing = await tmux.refresh();
  const server = listing.servers?.find(
    ({ ref, generation }) => ref.pathHex === pane.pathHex && generation === pane.generation,
  );
  try {
    const located = tmux.locatePane(pane);
    const { state, observedAt } = located.server.listing;
    if (state === 'FRESH' && observedAt !== null && observedAt.getTime() >= since) {
      return { kind: 'there', located };
    }
    const { reason, nextAttemptAt, detail } = located.server.listing;
    return { kind: 'unknown', error: new ListingUnknownError(reason, nextAttemptAt, detail) };
  } catch (error) {
    if (error instanceof ListingUnknownError) return { kind: 'unknown', error };
    if (error instanceof StaleGenerationError) {
      return ended(error.current === null ? 'SERVER_LOST' : 'SERVER_RESTARTED');
    }
    if (!(error instanceof NotFoundError)) throw error;
    const there = server?.sessions?.some((other) => other.session === session);
    return ended(there ? 'EXITED' : 'SESSION_KILLED');
  }
}

function ended(reason: PaneEnd['reason']): Whereabouts {
  return { kind: 'ended', end: { reason, exitStatus: null, exitSignal: null } };
}
