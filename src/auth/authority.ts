import type { Viewer } from './viewer.ts';

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
