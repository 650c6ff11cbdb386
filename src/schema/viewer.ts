import type { Viewer as ViewerValue } from '../auth/viewer.ts';
import { readableApiKeys } from '../resolvers/api-keys.ts';
import { encodeId } from '../resolvers/id.ts';
import { memberNode } from '../resolvers/nodes.ts';
import { builder } from './builder.ts';
import { memberId } from './global-ids.ts';
import { Role } from './member.ts';
import { ApiKey, Member, Node } from './refs.ts';

export const Scope = builder.enumType('Scope', {
  description: "What a key may be used for, within its owner's role.",
  values: {
    READ: { description: 'Listings.' },
    STREAM: { description: 'What is on the screens: captures and streams.' },
    ACT: { description: 'Restarting single panes.' },
    RESTART: { description: 'Restarting and repairing tmux servers.' },
    ADMIN: { description: 'Members, keys and the installation.' },
  } as const,
});

export const Credential = builder.enumType('Credential', {
  description: 'How the viewer showed who it is.',
  values: {
    API_KEY: { description: 'An API key.' },
    SESSION: { description: 'A sign-in with a password.' },
    SIGN_IN_LINK: { description: 'A one-time link. There is no password behind it.' },
  } as const,
});

export const Viewer = builder.objectRef<ViewerValue>('Viewer').implement({
  description: 'Who asks, and how far the credential reaches.',
  fields: (t) => ({
    member: t.field({
      type: Member,
      description: 'The account.',
      resolve: ({ member }) => memberNode(member),
    }),
    role: t.field({
      type: Role,
      description: 'Its role.',
      resolve: ({ member }) => member.role,
    }),
    scopes: t.field({
      type: [Scope],
      description: 'What the credential may be used for.',
      resolve: ({ scopes }) => [...scopes],
    }),
    memberIds: t.idList({
      nullable: true,
      description: 'Members that the credential may touch; null: all that the role allows.',
      resolve: ({ memberIds }) => (memberIds === null ? null : [...memberIds].map(memberId)),
    }),
    via: t.expose('via', { type: Credential, description: 'The kind of credential.' }),
    expiresAt: t.expose('expiresAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When the credential ends; null: never.',
    }),
  }),
});

ApiKey.implement({
  description: 'An API key, without its secret.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.id({
      description: 'Opaque.',
      resolve: ({ id }) => encodeId({ type: 'ApiKey', id }),
    }),
    name: t.exposeString('name', { description: 'What its maker called it.' }),
    prefix: t.string({
      description:
        'How the key begins: `mw_` and its public part. The rest is known to nobody here.',
      resolve: ({ publicId }) => `mw_${publicId}`,
    }),
    member: t.field({
      type: Member,
      description: 'Whose key it is.',
      resolve: (key, _, context) => {
        const owner = context.accounts.member(key.memberId);
        if (owner === undefined) throw new Error('a key without an owner');
        return memberNode(owner);
      },
    }),
    scopes: t.expose('scopes', { type: [Scope], description: 'What it may be used for.' }),
    memberIds: t.idList({
      nullable: true,
      description: 'Members that it may touch; null: all that its owner may.',
      resolve: ({ memberIds }) => memberIds?.map(memberId) ?? null,
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When it was made.' }),
    expiresAt: t.expose('expiresAt', {
      type: 'DateTime',
      nullable: true,
      description:
        'When it ends; null: never. Then it is over for good, also for a clock that is set back.',
    }),
    lastUsedAt: t.expose('lastUsedAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When it was last used, to the minute or so; null: never.',
    }),
    revokedAt: t.expose('revokedAt', {
      type: 'DateTime',
      nullable: true,
      description: 'When it was revoked; null: it was not.',
    }),
  }),
});

builder.queryFields((t) => ({
  viewer: t.field({
    type: Viewer,
    description: 'Who asks.',
    resolve: (_, _args, context) => context.viewer,
  }),
  apiKeys: t.field({
    type: [ApiKey],
    nullable: true,
    description:
      "Your keys; for an ADMIN everybody's. Null with FORBIDDEN in `errors` without the scope READ.",
    resolve: (_, _args, context) => readableApiKeys(context),
  }),
}));
