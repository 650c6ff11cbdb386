import { maySeeKey } from '../auth/authority.ts';
import type { Context } from './context.ts';
import type { ApiKeyNode } from './nodes.ts';
import { forbidden } from './request-error.ts';

/** An ADMIN sees every key, others their own; a credential for some members sees theirs alone. */
export function visibleApiKeys({ accounts, viewer }: Context): readonly ApiKeyNode[] {
  return accounts
    .apiKeys()
    .filter((key) => maySeeKey(viewer, key) && accounts.member(key.memberId) !== undefined)
    .map((key) => ({ ...key, __typename: 'ApiKey' }));
}

/** @throws RequestError (FORBIDDEN) */
export function readableApiKeys(context: Context): readonly ApiKeyNode[] {
  if (!context.viewer.scopes.has('READ')) throw forbidden('reading keys');
  return visibleApiKeys(context);
}
