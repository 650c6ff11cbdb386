import { maySeeListing } from '../auth/authority.ts';
import type { ListingStatus, MemberListing } from '../tmux/model.ts';
import type { Context } from './context.ts';
import { type MemberNode, memberNode, type ServerNode, serverNodes } from './nodes.ts';
import { forbidden } from './request-error.ts';

/**
 * The members that the viewer may see, by login.
 * @throws RequestError (FORBIDDEN) without the right to read at all: that is not "there is none"
 */
export function visibleMembers(context: Context): readonly MemberNode[] {
  if (!context.viewer.scopes.has('READ')) throw forbidden('reading listings');
  return membersInSight(context);
}

/** The same for a stream that is under way: none, once the right to read is gone. */
export function membersInSight(context: Context): readonly MemberNode[] {
  const { viewer } = context;
  return context.accounts
    .members()
    .filter((member) => maySeeListing(viewer, member.id))
    .map((member) => memberNode(member))
    .sort((one, other) => (one.member.login < other.member.login ? -1 : 1));
}

/** The member, or null for "not there" and "not yours" alike. */
export function visibleMember(context: Context, memberId: string): MemberNode | null {
  const member = context.accounts.member(memberId);
  if (member === undefined || !maySeeListing(context.viewer, memberId)) return null;
  return memberNode(member);
}

/**
 * What is known of a member's tmux. Asks behind the answer where it is old and waits only for a cold
 * listing. Checks authority itself, since a member may be reached by a path that shows its name
 * alone (the viewer's own entry, the actor of an audit row).
 */
export function listingOf(
  context: Context,
  node: MemberNode,
): MemberListing | Promise<MemberListing> {
  if (!maySeeListing(context.viewer, node.member.id)) throw forbidden('reading listings');
  node.listing ??= readListing(context, node);
  return node.listing;
}

async function readListing(context: Context, node: MemberNode): Promise<MemberListing> {
  const listing = (await context.fleet.read(node.member.id)) ?? unaskedListing(node);
  // From here on without a promise for each field.
  node.listing = listing;
  return listing;
}

/** Null: could not look. */
export function serversOf(
  context: Context,
  node: MemberNode,
): readonly ServerNode[] | null | Promise<readonly ServerNode[] | null> {
  const servers = (listing: MemberListing) =>
    listing.servers === null ? null : serverNodes(node, listing);
  const listing = listingOf(context, node);
  return listing instanceof Promise ? listing.then(servers) : servers(listing);
}

/** Asks now, past any back-off. */
export async function refreshListing(
  context: Context,
  memberId: string,
): Promise<MemberNode | null> {
  const node = visibleMember(context, memberId);
  if (node === null) return null;
  node.listing = (await context.fleet.refresh(memberId)) ?? unaskedListing(node);
  return node;
}

/** For a member that the fleet does not know: without a Linux user there is nothing; else nobody has looked yet. */
function unaskedListing({ member }: MemberNode): MemberListing {
  const nothing = member.osUser === null;
  const status: ListingStatus = {
    state: nothing ? 'FRESH' : 'UNKNOWN',
    version: nothing ? 'none' : 'unasked',
    observedAt: null,
    reason: nothing ? null : 'NOT_YET_ASKED',
    detail: nothing ? 'This member has no Linux user.' : null,
    consecutiveFailures: 0,
    nextAttemptAt: null,
  };
  return { memberId: member.id, status, servers: nothing ? [] : null };
}
