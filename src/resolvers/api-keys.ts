import { mayAdminister } from '../auth/authority.ts';
import type { Context } from './context.ts';
import type { ApiKeyNode } from './nodes.ts';
import { forbidden } from './request-error.ts';

/** An ADMIN sees every key, others their own; a credential for some members sees theirs alone. */
export function visibleApiKeys({ accounts, viewer }: Context): readonly ApiKeyNode[] {
  if (!viewer.scopes.has('READ')) return [];
  return accounts
    .apiKeys()
    .filter(
      ({ memberId }) =>
        (mayAdminister(viewer) || memberId === viewer.member.id) &&
        (viewer.memberIds === null || viewer.memberIds.has(memberId)),
    )
    .map((key) => ({ ...key, __typename: 'ApiKey' }));
}

/** @throws RequestError (FORBIDDEN) */
export function readableApiKeys(context: Context): readonly ApiKeyNode[] {
  if (!context.viewer.scopes.has('READ')) throw forbidden('reading keys');
  return visibleApiKeys(context);
}
