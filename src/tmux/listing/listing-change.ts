import type { MemberListing, PaneView, ServerView, WindowView } from '../model.ts';

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
    servers.every((server, at) => isSame(server, others[at]) || hasShapeOf(server, others[at]))
  );
}

/** What is the very same object in both is not looked into: most of it is. */
function hasShapeOf(one: ServerView, other: ServerView | undefined): boolean {
  return (
    other !== undefined &&
    one.ref.pathHex === other.ref.pathHex &&
    one.ref.generation === other.ref.generation &&
    one.status === other.status &&
    one.reason === other.reason &&
    one.detail === other.detail &&
    one.generation === other.generation &&
    one.attachedClients === other.attachedClients &&
    one.listing.state === other.listing.state &&
    one.listing.reason === other.listing.reason &&
    everyPair(one.sessions ?? [], other.sessions ?? [], (session, its) => {
      const same = session.session === its.session && session.name === its.name;
      return same && everyPair(session.windows, its.windows, isSameWindow);
    })
  );
}

function isSameWindow(one: WindowView, other: WindowView): boolean {
  const isSamePane = (pane: PaneView, its: PaneView) =>
    pane.pane === its.pane && pane.dead === its.dead && pane.pid === its.pid;
  return (
    one.window === other.window &&
    one.index === other.index &&
    everyPair(one.panes, other.panes, isSamePane)
  );
}

function everyPair<T>(
  ones: readonly T[],
  others: readonly T[],
  holds: (one: T, other: T) => boolean,
): boolean {
  if (ones.length !== others.length) return false;
  return ones.every((one, at) => {
    const other = others[at];
    return one === other || (other !== undefined && holds(one, other));
  });
}
