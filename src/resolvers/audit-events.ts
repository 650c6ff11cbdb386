import { type AuditFilter, AuditUnreadableError, type AuditVisibility } from '../audit/audit.ts';
import type { AuditEvent } from '../audit/record.ts';
import type { Viewer } from '../auth/viewer.ts';
import { type AuditEventNode, auditEventNode } from './audit-event.ts';
import type { Context } from './context.ts';
import type { Page, PageArguments } from './page.ts';
import { badInput, forbidden } from './request-error.ts';

/** The rows that `maySeeAuditEvent` lets the viewer see, for the database; undefined: no row at all. */
export function auditVisibility(viewer: Viewer): AuditVisibility | null | undefined {
  if (!viewer.scopes.has('READ')) return undefined;
  const { memberIds, member } = viewer;
  if (member.role === 'ADMIN')
    return memberIds === null ? null : { actorId: null, memberIds: [...memberIds] };
  const reachesItself = memberIds === null || memberIds.has(member.id);
  return { actorId: member.id, memberIds: reachesItself ? [member.id] : [] };
}

/** A page of the record, newest first. @throws RequestError */
export async function auditEvents(
  context: Context,
  { first, after }: PageArguments,
  filter: Omit<AuditFilter, 'visibleTo'>,
): Promise<Page<AuditEventNode>> {
  const visibleTo = auditVisibility(context.viewer);
  if (visibleTo === undefined) throw forbidden('reading the audit log');
  const size = first ?? 20;
  const { maxPageSize } = context.config;
  if (size < 1 || size > maxPageSize) throw badInput('first', `is from 1 to ${maxPageSize}.`);
  const page = await context.audit
    .page({ ...filter, visibleTo }, size, after ?? undefined)
    .catch((error: unknown) => unreadable(error));
  return {
    edges: page.edges.map(({ cursor, event }) => ({ cursor, node: auditEventNode(event) })),
    hasNextPage: page.hasNextPage,
    hasPreviousPage: after != null,
  };
}

export interface AuditEventAddedValue {
  readonly cursor: string;
  readonly auditEvent: AuditEventNode;
}

/** Each visible row after the cursor, exactly once; from now on without one. @throws RequestError */
export async function auditEventAdded(
  context: Context,
  after: string | undefined,
): Promise<AsyncIterable<AuditEventAddedValue>> {
  const { accounts, audit, draining, signal } = context;
  if (auditVisibility(context.viewer) === undefined) throw forbidden('reading the audit log');
  const visibleTo = () => {
    const viewer = accounts.current(context.viewer);
    return viewer && auditVisibility(viewer);
  };
  const over = AbortSignal.any([signal, draining].filter((each) => each !== undefined));
  const items = await audit
    .follow(after, visibleTo, over, accounts.changed)
    .catch((error: unknown) => unreadable(error));
  return (async function* () {
    for await (const { cursor, event } of items) yield added(cursor, event);
  })();
}

const values = new WeakMap<AuditEvent, AuditEventAddedValue>();

/** The same object for all who are sent that row at that place, so that it is executed once for them. */
function added(cursor: string, event: AuditEvent): AuditEventAddedValue {
  const before = values.get(event);
  if (before?.cursor === cursor) return before;
  const value = { cursor, auditEvent: auditEventNode(event) };
  values.set(event, value);
  return value;
}

/** All that is behind a read of the record is its cursor, the database and the caller's patience. */
function unreadable(error: unknown): never {
  if (error instanceof RangeError) throw badInput('after', error.message);
  const isOver = error instanceof Error && error.name === 'AbortError';
  throw isOver ? error : new AuditUnreadableError(error);
}
