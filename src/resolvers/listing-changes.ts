import type { Member } from '../members/member.ts';
import type { MemberListing } from '../tmux/model.ts';
import { watchAuthority } from './authority-watch.ts';
import type { Context } from './context.ts';
import { membersInSight, visibleMember } from './listing.ts';
import { type MemberNode, memberNode } from './nodes.ts';
import { credentialEnded, forbidden } from './request-error.ts';
import { type Failure, stream } from './stream.ts';

export type ListingEvent =
  | { readonly __typename: 'ListingSnapshot'; readonly member: MemberNode }
  | { readonly __typename: 'ListingSynced'; readonly at: Date }
  | { readonly __typename: 'MemberRemoved'; readonly memberId: string };

/**
 * The state of each visible member, then `ListingSynced`, then changes. `memberIds` null: every
 * visible member, also later ones. A member that is not there (any more), or not visible (any
 * more), is `MemberRemoved`. Ends with UNAUTHENTICATED when the viewer's authority ends.
 * @throws RequestError (FORBIDDEN) without the right to read listings
 */
export function listingChanges(
  context: Context,
  memberIds: readonly string[] | null,
): AsyncIterableIterator<ListingEvent | Failure> {
  if (!context.viewer.scopes.has('READ')) throw forbidden('reading listings');
  return stream((signal) => changes(context, memberIds, signal), context.signal);
}

async function* changes(
  context: Context,
  memberIds: readonly string[] | null,
  caller: AbortSignal,
): AsyncGenerator<ListingEvent> {
  using watch = watchAuthority(context, caller);
  /** Of members that were shown: the version that was. */
  const shown = new Map<string, string>();
  for (const id of memberIds ?? []) shown.set(id, '');
  let synced = false;
  while (!watch.signal.aborted) {
    const visible = () => visibleIds(context, memberIds);
    const now = new Set(visible());
    for (const id of shown.keys()) {
      if (now.has(id)) continue;
      shown.delete(id);
      yield { __typename: 'MemberRemoved', memberId: id };
    }
    using round = untilOthersAreVisible(context, now, visible, watch.signal);
    for await (const change of context.fleet.follow(visible, round.signal)) {
      if (watch.signal.aborted) break;
      if (change.kind === 'synced') {
        if (!synced) yield { __typename: 'ListingSynced', at: change.at };
        synced = true;
      } else if (change.kind === 'removed') {
        if (shown.delete(change.memberId))
          yield { __typename: 'MemberRemoved', memberId: change.memberId };
      } else {
        const { memberId, status } = change.listing;
        const node = visibleMember(context, memberId);
        if (node === null || !(memberIds?.includes(memberId) ?? true)) continue;
        if (shown.get(memberId) === status.version) continue;
        shown.set(memberId, status.version);
        yield snapshotOf(node.member, change.listing);
      }
    }
    if (!round.signal.aborted) break;
  }
  if (watch.end === 'withdrawn') throw credentialEnded();
}

type Snapshot = Extract<ListingEvent, { readonly __typename: 'ListingSnapshot' }>;
const snapshots = new WeakMap<MemberListing, Snapshot>();

/** The same object for all who are sent that listing, so that it is executed once for those who may see the same. */
function snapshotOf(member: Member, listing: MemberListing): Snapshot {
  const before = snapshots.get(listing);
  if (before?.member.member === member) return before;
  const snapshot: Snapshot = {
    __typename: 'ListingSnapshot',
    member: memberNode(member, listing),
  };
  snapshots.set(listing, snapshot);
  return snapshot;
}

function visibleIds(context: Context, memberIds: readonly string[] | null): readonly string[] {
  const wanted = memberIds === null ? undefined : new Set(memberIds);
  return membersInSight(context)
    .map(({ member }) => member.id)
    .filter((id) => wanted?.has(id) ?? true);
}

/** Aborted when a change of roles or members made other members visible than when it was made. */
function untilOthersAreVisible(
  context: Context,
  before: ReadonlySet<string>,
  visible: () => readonly string[],
  parent: AbortSignal,
): Disposable & { readonly signal: AbortSignal } {
  const control = new AbortController();
  const stop = () => control.abort();
  parent.addEventListener('abort', stop, { once: true });
  if (parent.aborted) stop();
  const watch = async () => {
    while (!control.signal.aborted) {
      const now = visible();
      if (now.length !== before.size || now.some((id) => !before.has(id))) return stop();
      await context.accounts.changed.wait(control.signal);
    }
  };
  watch().catch(stop);
  return {
    signal: control.signal,
    [Symbol.dispose]: () => {
      parent.removeEventListener('abort', stop);
      stop();
    },
  };
}
