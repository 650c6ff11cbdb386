import { maySeeListing } from '../auth/authority.ts';
import type { Role } from '../members/member.ts';
import type { ListingState } from '../tmux/model.ts';
import type { Context } from './context.ts';
import { listingOf, visibleMembers } from './listing.ts';
import { type MemberNode, memberNode } from './nodes.ts';
import { type Page, type PageArguments, type PageOrder, pageOf, pageRequest } from './page.ts';
import { badInput } from './request-error.ts';

export interface MembersArguments extends PageArguments {
  readonly filter?:
    | {
        readonly role?: Role | null | undefined;
        readonly search?: string | null | undefined;
        readonly listing?: readonly ListingState[] | null | undefined;
      }
    | null
    | undefined;
}

const byLogin: PageOrder<MemberNode> = {
  name: 'members',
  shape: ['string'],
  key: ({ member }) => [member.login],
};

/** Visible members by login. */
export async function members(
  context: Context,
  { filter, ...page }: MembersArguments,
): Promise<Page<MemberNode>> {
  const request = pageRequest(context, page, byLogin);
  const search = filter?.search?.toLowerCase();
  if (search !== undefined && search.length > 64)
    throw badInput('filter.search', 'has at most 64 characters.');
  const rows = visibleMembers(context).filter(
    ({ member }) =>
      (filter?.role == null || member.role === filter.role) &&
      (search === undefined ||
        member.login.toLowerCase().includes(search) ||
        member.osUser?.toLowerCase().includes(search)),
  );
  if (filter?.listing == null) return pageOf(rows, request, byLogin);
  const states = new Set(filter.listing);
  const listings = await Promise.all(rows.map((node) => listingOf(context, node)));
  return pageOf(
    rows.filter((_, index) => states.has(listings[index]?.status.state ?? 'UNKNOWN')),
    request,
    byLogin,
  );
}

/** Null for "not there" and "not yours" alike. */
export function memberByLogin(context: Context, login: string): MemberNode | null {
  const member = context.accounts.memberByLogin(login);
  if (member === undefined || !maySeeListing(context.viewer, member.id)) return null;
  return memberNode(member);
}
