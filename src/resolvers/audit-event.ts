import type { AuditEvent } from '../audit/record.ts';
import type { Context } from './context.ts';
import type { AuditEventNode } from './find.ts';
import { type MemberNode, memberNode } from './nodes.ts';

export type { AuditEventNode } from './find.ts';

export const auditEventNode = (event: AuditEvent): AuditEventNode => ({
  ...event,
  __typename: 'AuditEvent',
});

/**
 * A member named by a row that the viewer may see. Only its name is shown by this way: what hangs
 * below it is checked again. Null for a deleted one.
 */
export function memberOfEvent(context: Context, memberId: string | null): MemberNode | null {
  const member = memberId === null ? undefined : context.accounts.member(memberId);
  return member === undefined ? null : memberNode(member);
}
