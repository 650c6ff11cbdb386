import type { Scope, Viewer } from './viewer.ts';

/**
 * The rules of who may see and do what, in one place. ADMIN: everything. ANALYST: reads every
 * member's listing; pane content and acts only its own. DEVELOPER: its own only. The scopes and
 * members of a credential narrow that and never widen it. "Not there" and "not yours" are one answer.
 */

const own = (viewer: Viewer, memberId: string) => viewer.member.id === memberId;
const admin = (viewer: Viewer) => viewer.member.role === 'ADMIN';
const reaches = (viewer: Viewer, memberId: string) =>
  viewer.memberIds === null || viewer.memberIds.has(memberId);

/** May see the member, its servers and its listings. */
export function maySeeListing(viewer: Viewer, memberId: string): boolean {
  return (
    viewer.scopes.has('READ') &&
    reaches(viewer, memberId) &&
    (admin(viewer) || viewer.member.role === 'ANALYST' || own(viewer, memberId))
  );
}

/** May see what is on the screens: captures and streams. */
export function maySeePaneContent(viewer: Viewer, memberId: string): boolean {
  return (
    viewer.scopes.has('STREAM') &&
    reaches(viewer, memberId) &&
    (admin(viewer) || own(viewer, memberId))
  );
}

/** May restart single panes. */
export function mayActOnPane(viewer: Viewer, memberId: string): boolean {
  return (
    viewer.scopes.has('ACT') &&
    reaches(viewer, memberId) &&
    (admin(viewer) || own(viewer, memberId))
  );
}

/** May restart and repair servers, once re-authenticated. */
export function mayActOnServer(viewer: Viewer, memberId: string): boolean {
  return (
    viewer.scopes.has('RESTART') &&
    reaches(viewer, memberId) &&
    (admin(viewer) || own(viewer, memberId))
  );
}

/** Installation, keys of others, and whatever concerns the service itself. */
export function mayAdminister(viewer: Viewer): boolean {
  return viewer.scopes.has('ADMIN') && admin(viewer);
}

/** May make a key of that owner; what the key may do is `isWithin`. */
export function mayMakeKey(viewer: Viewer, ownerId: string): boolean {
  return reaches(viewer, ownerId) && (mayAdminister(viewer) || own(viewer, ownerId));
}

/** Whether a key would do no more than its maker's own credential does, nor longer than that key. */
export function isWithin(
  viewer: Viewer,
  key: {
    readonly scopes: readonly Scope[];
    readonly memberIds: readonly string[] | null;
    readonly expiresAt: Date | null;
  },
): boolean {
  const outlives =
    viewer.via === 'API_KEY' &&
    viewer.expiresAt !== null &&
    (key.expiresAt === null || key.expiresAt > viewer.expiresAt);
  const widens =
    viewer.memberIds !== null &&
    (key.memberIds === null || key.memberIds.some((id) => !reaches(viewer, id)));
  return !outlives && !widens && key.scopes.every((scope) => viewer.scopes.has(scope));
}

/** May see that a key is there: its owner, and an ADMIN. */
export function maySeeKey(viewer: Viewer, { memberId }: { readonly memberId: string }): boolean {
  return viewer.scopes.has('READ') && mayMakeKey(viewer, memberId);
}

/** A person may revoke every own key; a key itself, and others with ADMIN alone. */
export function mayRevokeKey(
  viewer: Viewer,
  key: { readonly id: string; readonly memberId: string },
): boolean {
  if (viewer.via === 'API_KEY' && viewer.credentialId === key.id) return true;
  if (!mayMakeKey(viewer, key.memberId)) return false;
  return viewer.via !== 'API_KEY' || viewer.scopes.has('ADMIN');
}

/** May add, change and delete members, once re-authenticated. */
export function mayChangeMembers(viewer: Viewer): boolean {
  return mayAdminister(viewer) && viewer.memberIds === null;
}

/** May read the record of an act: an ADMIN all, others where they are actor or target. */
export function maySeeAuditEvent(
  viewer: Viewer,
  event: { readonly actorId: string | null; readonly memberId: string | null },
): boolean {
  if (!viewer.scopes.has('READ')) return false;
  if (admin(viewer))
    return (
      viewer.memberIds === null || (event.memberId !== null && reaches(viewer, event.memberId))
    );
  const target =
    event.memberId !== null && own(viewer, event.memberId) && reaches(viewer, event.memberId);
  return event.actorId === viewer.member.id || target;
}
