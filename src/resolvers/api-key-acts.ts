import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Json } from '../audit/audit.ts';
import type { ApiKey } from '../auth/accounts.ts';
import { isKeyName, keyNameRule } from '../auth/api-key.ts';
import { hasEnded } from '../auth/api-keys.ts';
import { isWithin, mayMakeKey, mayRevokeKey, maySeeKey, maySeeListing } from '../auth/authority.ts';
import { scopes as allScopes, type Scope } from '../auth/viewer.ts';
import { escapeText } from '../escape.ts';
import { NotFoundError } from '../tmux/errors.ts';
import type { Prepared } from './act-record.ts';
import type { Context } from './context.ts';
import { encodeId } from './id.ts';
import type { ApiKeyNode } from './nodes.ts';
import { recorded } from './recorded.ts';
import { badInput } from './request-error.ts';
import type { Named } from './user-error.ts';

export interface CreateApiKey {
  readonly idempotencyKey: string;
  readonly memberId: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Null: all that its owner may touch. */
  readonly memberIds: readonly string[] | null;
  readonly expiresAt: Date | null;
  readonly password: string | null | undefined;
  readonly grant: string | null | undefined;
}

export interface CreateApiKeyPayloadValue {
  readonly __typename: 'CreateApiKeyPayload';
  readonly apiKey: ApiKeyNode;
  readonly key: string | null;
}
export interface RevokeApiKeyPayloadValue {
  readonly __typename: 'RevokeApiKeyPayload';
  readonly apiKey: ApiKeyNode;
}

export const createKeyErrors = [
  'ReauthenticationRequiredError',
  'AuditUnavailableError',
  'IdempotencyConflictError',
  'NotFoundError',
  'OperationInProgressError',
  'OutcomeUnknownError',
] as const;
export const revokeKeyErrors = [
  'AuditUnavailableError',
  'NotFoundError',
  'OutcomeUnknownError',
] as const;

/** Keys of one member that are neither revoked nor over. */
const mostKeys = 100;

/** Makes a key. Its text is in this answer alone: nothing that is stored holds it. */
export async function createApiKey(
  context: Context,
  input: CreateApiKey,
): Promise<CreateApiKeyPayloadValue | Named<(typeof createKeyErrors)[number]>> {
  const { viewer, address, changes } = context;
  const { memberId, idempotencyKey, password, grant } = input;
  const wanted = {
    memberId,
    name: input.name.trim(),
    scopes: allScopes.filter((scope) => input.scopes.includes(scope)),
    memberIds: input.memberIds && [...new Set(input.memberIds)].sort(),
    expiresAt: input.expiresAt,
  };
  const id = randomUUID();
  // Of the call that makes it; one that joins it, or repeats it, has none.
  let text: string | undefined;
  const end = await recorded(context, {
    errors: createKeyErrors,
    mutation: 'createApiKey',
    action: 'CREATE_API_KEY',
    what: 'making this key: it can do no more, and last no longer, than your own credential',
    idempotencyKey,
    reason: null,
    target: { memberId, id: null, label: null, generation: null },
    input: { ...wanted, expiresAt: wanted.expiresAt?.toISOString() ?? null },
    facts: factsOf(wanted),
    allowed: (who) => mayMakeKey(who, memberId) && isWithin(who, wanted),
    check: () => checkKey(context, wanted),
    reauthenticate: () =>
      context.reauthentication.require(viewer, { password, grant }, address, {
        action: 'CREATE_API_KEY',
        targets: [],
        memberId,
      }),
    prepare: async (): Promise<Prepared<ApiKey>> => {
      const { login } = named(context, memberId);
      for (const each of wanted.memberIds ?? []) named(context, each);
      return {
        before: null,
        targetLabel: `${login}: ${escapeText(wanted.name)}`,
        made: { memberId, id: encodeId({ type: 'ApiKey', id }) },
        async run() {
          const madeByAdmin = viewer.member.role === 'ADMIN' && viewer.scopes.has('ADMIN');
          const made = await changes.createKey({ ...wanted, madeByAdmin }, id);
          text = made.key;
          return made.apiKey;
        },
        [Symbol.dispose]() {},
      };
    },
    report: (apiKey) => ({ ...done, answer: answerOf(apiKey) }),
  });
  if (end.kind === 'refused') return end.error;
  return {
    __typename: 'CreateApiKeyPayload',
    apiKey: nodeOf(context, end.answer),
    key: text ?? null,
  };
}

/** Ends a key, and within a second what is open by it. */
export async function revokeApiKey(
  context: Context,
  { apiKeyId: id, reason }: { readonly apiKeyId: string; readonly reason: string | null },
): Promise<RevokeApiKeyPayloadValue | Named<(typeof revokeKeyErrors)[number]>> {
  const key = context.accounts.apiKeys().find((each) => each.id === id);
  const { viewer, accounts, changes } = context;
  const owner = key && accounts.member(key.memberId);
  const allowed = key !== undefined && owner !== undefined && mayRevokeKey(viewer, key);
  const end = await recorded(context, {
    errors: revokeKeyErrors,
    mutation: 'revokeApiKey',
    action: 'REVOKE_API_KEY',
    what: 'revoking this key: a key revokes itself, and others with the scope ADMIN',
    idempotencyKey: null,
    reason,
    target: {
      memberId: key?.memberId ?? null,
      id: encodeId({ type: 'ApiKey', id }),
      label: null,
      generation: null,
    },
    hidden: !allowed && (key === undefined || !maySeeKey(viewer, key)),
    input: null,
    facts: null,
    allowed: () => allowed,
    prepare: async () => ({
      before: null,
      targetLabel: `${owner?.login}: ${escapeText(key?.name ?? '')}`,
      run: async () => ({ apiKey: key, revoked: await changes.revokeKey(id) }),
      [Symbol.dispose]() {},
    }),
    report: ({ apiKey, revoked }) => ({
      ...done,
      message: revoked ? null : 'It was revoked before.',
      answer: apiKey === undefined ? null : answerOf(apiKey),
    }),
  });
  if (end.kind === 'refused') return end.error;
  return { __typename: 'RevokeApiKeyPayload', apiKey: nodeOf(context, end.answer) };
}

const done = { outcome: 'SUCCEEDED', message: null, after: null, survivors: null } as const;

/** To make a key nothing is read, so READ is not asked for. @throws NotFoundError */
function named({ accounts, viewer }: Context, memberId: string) {
  const member = accounts.member(memberId);
  const isKnown = maySeeListing(viewer, memberId) || mayMakeKey(viewer, memberId);
  if (member === undefined || !isKnown) throw new NotFoundError('The member');
  return member;
}

type Wanted = Pick<ApiKey, 'memberId' | 'name' | 'scopes' | 'memberIds' | 'expiresAt'>;

/** @throws RequestError (BAD_USER_INPUT) */
function checkKey({ accounts }: Context, wanted: Wanted): void {
  const { name, scopes, memberIds, expiresAt, memberId } = wanted;
  if (!isKeyName(name)) throw badInput('input.name', `has ${keyNameRule}.`);
  if (scopes.length === 0) throw badInput('input.scopes', 'names at least one scope.');
  if (scopes.includes('ADMIN') && accounts.member(memberId)?.role !== 'ADMIN')
    throw badInput('input.scopes', 'holds ADMIN, which is for keys of an ADMIN.');
  if (memberIds?.length === 0)
    throw badInput('input.memberIds', 'names at least one member; null means all.');
  if (expiresAt !== null && expiresAt.getTime() <= Date.now())
    throw badInput('input.expiresAt', 'is in the past.');
  const live = accounts.apiKeys().filter((key) => key.memberId === memberId && !hasEnded(key));
  if (live.length >= mostKeys)
    throw badInput('input.memberId', `has ${mostKeys} keys already. Revoke one first.`);
}

function factsOf({ scopes, memberIds, expiresAt }: Wanted) {
  return {
    scopes: scopes.join(' '),
    memberIds: memberIds?.join(' ') ?? null,
    expiresAt: expiresAt?.toISOString() ?? null,
  };
}

const moment = z.iso.datetime().transform((text) => new Date(text));
const stored = z.object({
  id: z.string(),
  publicId: z.string(),
  name: z.string(),
  memberId: z.string(),
  scopes: z.array(z.enum(allScopes)),
  memberIds: z.array(z.string()).nullable(),
  createdAt: moment,
  expiresAt: moment.nullable(),
  lastUsedAt: moment.nullable(),
  revokedAt: moment.nullable(),
});

/** Never the secret. */
function answerOf(key: ApiKey): Json {
  const text = (date: Date | null) => date?.toISOString() ?? null;
  return {
    ...{ id: key.id, publicId: key.publicId, name: key.name, memberId: key.memberId },
    ...{ scopes: key.scopes, memberIds: key.memberIds },
    ...{ createdAt: text(key.createdAt), expiresAt: text(key.expiresAt) },
    ...{ lastUsedAt: text(key.lastUsedAt), revokedAt: text(key.revokedAt) },
  };
}

/** As it is now; as it was where it is not kept any more. */
function nodeOf({ accounts }: Context, answer: Json): ApiKeyNode {
  const then = stored.parse(answer);
  const now = accounts.apiKeys().find(({ id }) => id === then.id);
  return { ...(now ?? { ...then, endedAt: null }), __typename: 'ApiKey' };
}
