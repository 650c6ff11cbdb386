import { ListingUnknownError, NotFoundError, StaleGenerationError } from './errors.ts';
import { parseGeneration } from './generation.ts';
import type { ServerTarget } from './member-helper.ts';
import { type LocatedPane, serverKey, type TargetProcess } from './member-tmux.ts';
import type { ListingStatus, MemberListing, PaneRef, ServerRef, ServerView } from './model.ts';

/**
 * From an id to the thing itself, by what is listed now.
 *
 * The generation is compared first: it is known from the process table also where tmux does not
 * answer, and an id of another life is refused whatever else is known. "Not there" is said only from
 * rows that are whole; everything that could not be looked at is unknown.
 */

/** The server of that identity. One that lost its path, and has it again, is found by its generation. */
export function findServer(listing: MemberListing, ref: ServerRef): ServerView | undefined {
  const servers = listing.servers ?? [];
  const key = serverKey(ref);
  return (
    servers.find((server) => serverKey(server.ref) === key) ??
    servers.find(
      ({ ref: { pathHex }, generation }) =>
        pathHex === ref.pathHex && generation !== null && generation === ref.generation,
    )
  );
}

/** @throws StaleGenerationError, NotFoundError, ListingUnknownError */
export function locatePane(listing: MemberListing, ref: PaneRef): LocatedPane {
  const server = serverOfGeneration(listing, ref);
  if (server.sessions === null) throw unknown(server.listing);
  const places = server.sessions.flatMap((session) =>
    session.windows.flatMap((window) =>
      window.panes
        .filter(({ pane }) => pane === ref.pane)
        .map((pane) => ({ session, window, pane })),
    ),
  );
  const [place] = places;
  if (place === undefined) {
    // Rows that were left out may have held it.
    if (server.listing.reason !== null) throw unknown(server.listing);
    throw new NotFoundError('The pane');
  }
  return {
    server,
    generation: ref.generation,
    target: targetOf(server),
    ...place,
    sessions: [...new Set(places.map(({ session }) => session.session))],
  };
}

function serverOfGeneration(listing: MemberListing, ref: PaneRef): ServerView {
  if (listing.servers === null) throw unknown(listing.status);
  const onPath = listing.servers.filter((server) => server.ref.pathHex === ref.pathHex);
  const server = onPath.find(({ generation }) => generation === ref.generation);
  if (server !== undefined) return server;
  const present = onPath.find((candidate) => candidate.ref.generation === undefined);
  if (present !== undefined && present.generation === null && present.status !== 'ABSENT') {
    throw unknown(present.listing);
  }
  if (present === undefined && listing.status.reason !== null) throw unknown(listing.status);
  throw new StaleGenerationError(ref.generation, present?.generation ?? null);
}

/** @throws ListingUnknownError */
export function targetProcessOf(server: ServerView): TargetProcess {
  const life = server.generation === null ? undefined : parseGeneration(server.generation);
  if (life === undefined) throw unknown(server.listing);
  return { pid: life.pid, ticks: life.ticks };
}

/** @throws ListingUnknownError */
export function targetOf(server: ServerView): ServerTarget {
  const { tmuxStartTime } = server;
  if (tmuxStartTime === null) throw unknown(server.listing);
  return { pathHex: server.ref.pathHex, ...targetProcessOf(server), tmuxStartTime };
}

function unknown(status: ListingStatus): ListingUnknownError {
  return new ListingUnknownError(status.reason, status.nextAttemptAt, status.detail);
}
