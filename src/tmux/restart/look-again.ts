import { sleep } from '../../concurrency/clock.ts';
import { ListingUnknownError, NotFoundError, StaleGenerationError } from '../errors.ts';
import type { MemberTmux } from '../member-tmux.ts';
import type { Generation, ServerRef, ServerView } from '../model.ts';
import { wasLookedAt } from './server-state.ts';

/**
 * The server of that generation as it is now, looked at inside its lock. It may be stopped, or not
 * answer; but it is there, and it is the one that was meant.
 * @throws ListingUnknownError, NotFoundError, StaleGenerationError
 */
export async function lookAgain(
  tmux: MemberTmux,
  ref: ServerRef,
  expected: Generation,
): Promise<ServerView> {
  try {
    return await lookOnce(tmux, ref, expected);
  } catch (error) {
    if (!(error instanceof ListingUnknownError)) throw error;
    // One that is just ending is neither there nor gone for a moment.
    await sleep(againMs, tmux.clock);
    return await lookOnce(tmux, ref, expected);
  }
}

const againMs = 200;

async function lookOnce(
  tmux: MemberTmux,
  ref: ServerRef,
  expected: Generation,
): Promise<ServerView> {
  const since = tmux.clock.now();
  const listing = await tmux.refresh();
  if (!wasLookedAt(listing, since)) {
    const { reason, nextAttemptAt, detail } = listing.status;
    throw new ListingUnknownError(reason, nextAttemptAt, detail);
  }
  const server = tmux.server(ref);
  if (server === undefined) throw new NotFoundError('The tmux server');
  if (server.status === 'ABSENT') throw new StaleGenerationError(expected, null);
  if (server.generation === null) throw unknownServer(server);
  if (server.generation !== expected) throw new StaleGenerationError(expected, server.generation);
  if (server.status === 'UNKNOWN') throw unknownServer(server);
  return server;
}

export function unknownServer(server: ServerView): ListingUnknownError {
  return new ListingUnknownError(
    server.reason ?? server.listing.reason,
    server.listing.nextAttemptAt,
    server.detail ?? server.listing.detail,
  );
}
