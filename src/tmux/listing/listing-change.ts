import type { MemberListing, ServerView } from '../model.ts';

/** Whether a reader sees the same in both; each server's own version says whether it differs. */
export function listingLooksTheSame(one: MemberListing, other: MemberListing): boolean {
  return (
    one.status.state === other.status.state &&
    one.status.reason === other.status.reason &&
    one.status.detail === other.status.detail &&
    one.servers?.length === other.servers?.length &&
    (one.servers ?? []).every((server, index) => isSame(server, other.servers?.[index]))
  );
}

function isSame(one: ServerView, other: ServerView | undefined): boolean {
  return (
    other !== undefined &&
    one.ref.pathHex === other.ref.pathHex &&
    one.ref.generation === other.ref.generation &&
    one.listing.version === other.listing.version
  );
}

/**
 * Whether they differ in nothing but what programs change all the time: titles, commands,
 * directories, names of windows. Nobody has to hear of that more than once a second.
 */
export function isCosmetic(one: MemberListing, other: MemberListing): boolean {
  const [servers, others] = [one.servers ?? [], other.servers ?? []];
  return (
    one.status.state === other.status.state &&
    one.status.reason === other.status.reason &&
    one.status.detail === other.status.detail &&
    servers.length === others.length &&
    servers.every((server, at) => isSame(server, others[at]) || shape(server) === shape(others[at]))
  );
}

function shape(server: ServerView | undefined): string {
  return JSON.stringify([
    server?.ref.pathHex,
    server?.ref.generation,
    server?.status,
    server?.reason,
    server?.detail,
    server?.generation,
    server?.attachedClients,
    server?.listing.state,
    server?.listing.reason,
    (server?.sessions ?? []).map((session) => [
      session.session,
      session.name,
      session.windows.map(({ window, index, panes }) => [
        window,
        index,
        panes.map(({ pane, dead, pid }) => [pane, dead, pid]),
      ]),
    ]),
  ]);
}
