import { AuditUnreadableError } from '../audit/audit.ts';
import type { AuditEvent } from '../audit/record.ts';
import { maySeeAuditEvent } from '../auth/authority.ts';
import { ListingUnknownError } from '../tmux/errors.ts';
import type { PaneRef, ServerRef, SessionRef, WindowRef } from '../tmux/model.ts';
import { visibleApiKeys } from './api-keys.ts';
import type { Context } from './context.ts';
import { decodeId, type GlobalId } from './id.ts';
import { listingOf, visibleMember } from './listing.ts';
import {
  type ApiKeyNode,
  linksOf,
  type MemberNode,
  type PaneNode,
  panesOf,
  type ServerNode,
  type SessionNode,
  serverNodes,
  sessionNodes,
  type WindowNode,
} from './nodes.ts';

/**
 * From an id to the thing. Null: not there, not yours, or of a past generation. A listing that is
 * unknown answers neither: `ListingUnknownError` is thrown.
 */

export interface AuditEventNode extends AuditEvent {
  readonly __typename: 'AuditEvent';
}
export type Node =
  | MemberNode
  | ServerNode
  | SessionNode
  | WindowNode
  | PaneNode
  | ApiKeyNode
  | AuditEventNode;

/** @throws ListingUnknownError */
export async function findNode(context: Context, id: string): Promise<Node | null> {
  const decoded = decodeId(id);
  return decoded === undefined ? null : await find(context, decoded);
}

function find(context: Context, id: GlobalId): Promise<Node | null> | Node | null {
  switch (id.type) {
    case 'Member':
      return visibleMember(context, id.id);
    case 'TmuxServer':
      return findServer(context, id.ref);
    case 'TmuxSession':
      return findSession(context, id.ref);
    case 'TmuxWindow':
      return findWindow(context, id.ref);
    case 'TmuxPane':
      return findPane(context, id.ref);
    case 'ApiKey':
      return visibleApiKeys(context).find((key) => key.id === id.id) ?? null;
    case 'AuditEvent':
      return findAuditEvent(context, id.id);
  }
}

/** @throws ListingUnknownError */
export async function findServer(context: Context, ref: ServerRef): Promise<ServerNode | null> {
  const servers = await serversOrThrow(context, ref.memberId);
  return (
    servers?.find(
      ({ view }) => view.ref.pathHex === ref.pathHex && view.ref.generation === ref.generation,
    ) ?? null
  );
}

/** @throws ListingUnknownError */
export async function findSession(context: Context, ref: SessionRef): Promise<SessionNode | null> {
  const server = await findLife(context, ref);
  return (server && sessionNodes(server)?.find(({ view }) => view.session === ref.session)) ?? null;
}

/** @throws ListingUnknownError */
export async function findWindow(context: Context, ref: WindowRef): Promise<WindowNode | null> {
  const server = await findLife(context, ref);
  return (
    (server &&
      linksOf(server, ref.window).find(({ session }) => session.view.session === ref.session)) ??
    null
  );
}

/** @throws ListingUnknownError */
export async function findPane(context: Context, ref: PaneRef): Promise<PaneNode | null> {
  const server = await findLife(context, ref);
  return (server && panesOf(server).find(({ view }) => view.pane === ref.pane)) ?? null;
}

async function findAuditEvent(context: Context, id: string): Promise<AuditEventNode | null> {
  const event = await context.audit.event(id).catch((error: unknown) => {
    throw new AuditUnreadableError(error);
  });
  if (event === undefined || !maySeeAuditEvent(context.viewer, event)) return null;
  return { ...event, __typename: 'AuditEvent' };
}

/** The server in that life of it, with known rows; null when another life is there, or none. */
async function findLife(
  context: Context,
  ref: { readonly memberId: string; readonly pathHex: string; readonly generation: string },
): Promise<ServerNode | null> {
  const servers = await serversOrThrow(context, ref.memberId);
  const there = servers?.filter(({ view }) => view.ref.pathHex === ref.pathHex) ?? [];
  const server = there.find(({ view }) => view.generation === ref.generation);
  if (server === undefined) {
    const unseen = there.find(({ view }) => view.generation === null && view.status !== 'ABSENT');
    if (unseen === undefined) return null;
    throw unknown(unseen.view);
  }
  if (server.view.sessions === null) throw unknown(server.view);
  return server;
}

/** Null: no such member for this viewer. */
async function serversOrThrow(
  context: Context,
  memberId: string,
): Promise<readonly ServerNode[] | null> {
  const node = visibleMember(context, memberId);
  if (node === null) return null;
  const listing = await listingOf(context, node);
  if (listing.servers === null) {
    const { reason, nextAttemptAt, detail } = listing.status;
    throw new ListingUnknownError(reason, nextAttemptAt, detail);
  }
  return serverNodes(node, listing);
}

function unknown(view: ServerNode['view']): ListingUnknownError {
  const { reason, nextAttemptAt, detail } = view.listing;
  return new ListingUnknownError(reason ?? view.reason, nextAttemptAt, detail ?? view.detail);
}
