import {
  type CreateApiKeyPayloadValue,
  createApiKey,
  createKeyErrors,
  type RevokeApiKeyPayloadValue,
  revokeApiKey,
  revokeKeyErrors,
} from '../resolvers/api-key-acts.ts';
import { keyDescription, reasonDescription, repeatDescription } from './act.ts';
import { builder } from './builder.ts';
import { errorTypes } from './errors.ts';
import { idArgument, idArguments } from './global-ids.ts';
import { ApiKey } from './refs.ts';
import { Scope } from './viewer.ts';

const CreateApiKeyInput = builder.inputType('CreateApiKeyInput', {
  description: repeatDescription,
  fields: (t) => ({
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    memberId: t.id({
      required: true,
      description: 'Whose key it will be: your own, or as an ADMIN anybody’s.',
    }),
    name: t.string({
      required: true,
      description: 'What it is for: 1 to 100 characters, none of them a control character.',
    }),
    scopes: t.field({
      type: [Scope],
      required: true,
      description:
        'What it may be used for, within its owner’s role and your own credential. ADMIN is for keys of an ADMIN. RESTART stands for a password only where an ADMIN makes the key.',
    }),
    memberIds: t.idList({
      description: 'Members that it may touch; null: all that its owner may.',
    }),
    expiresAt: t.field({
      type: 'DateTime',
      description:
        'When it ends, for good; null: never. A key that makes a key can’t make one that lasts longer.',
    }),
    password: t.string({
      description: "The caller's own password, unless a grant or a key with ADMIN stands for it.",
    }),
    grant: t.string({
      description:
        'What `reauthenticate` gave for CREATE_API_KEY and this member, instead of the password.',
    }),
  }),
});

const CreateApiKeyPayload = builder
  .objectRef<CreateApiKeyPayloadValue>('CreateApiKeyPayload')
  .implement({
    description: 'The key was made.',
    fields: (t) => ({
      apiKey: t.field({
        type: ApiKey,
        description: 'The key, without its secret.',
        resolve: ({ apiKey }) => apiKey,
      }),
      key: t.exposeString('key', {
        nullable: true,
        description:
          'The key itself, `mw_…`, for `Authorization: Bearer`. In the first answer only: null in a repeated one (then revoke it and make another).',
      }),
    }),
  });

const CreateApiKeyResult = builder.unionType('CreateApiKeyResult', {
  description: 'What came of it.',
  types: [CreateApiKeyPayload, ...errorTypes(createKeyErrors)],
});

const RevokeApiKeyInput = builder.inputType('RevokeApiKeyInput', {
  description: 'Which key is to end.',
  fields: (t) => ({
    apiKeyId: t.id({ required: true, description: 'Which key.' }),
    reason: t.string({ description: reasonDescription }),
  }),
});

const RevokeApiKeyPayload = builder
  .objectRef<RevokeApiKeyPayloadValue>('RevokeApiKeyPayload')
  .implement({
    description: 'The key is revoked, now or before.',
    fields: (t) => ({
      apiKey: t.field({
        type: ApiKey,
        description: 'The key; `revokedAt` says since when.',
        resolve: ({ apiKey }) => apiKey,
      }),
    }),
  });

const RevokeApiKeyResult = builder.unionType('RevokeApiKeyResult', {
  description: 'What came of it.',
  types: [RevokeApiKeyPayload, ...errorTypes(revokeKeyErrors)],
});

builder.mutationFields((t) => ({
  createApiKey: t.field({
    type: CreateApiKeyResult,
    description:
      'Makes an API key. Nobody makes one that can do more than themself. Needs the password again, a grant, or a key with ADMIN that an ADMIN made.',
    args: {
      input: t.arg({ type: CreateApiKeyInput, required: true, description: 'Which.' }),
    },
    resolve: (_, { input }, context) =>
      createApiKey(context, {
        idempotencyKey: input.idempotencyKey,
        memberId: idArgument('Member', 'input.memberId', input.memberId).id,
        name: input.name,
        scopes: input.scopes,
        memberIds:
          input.memberIds == null
            ? null
            : idArguments('Member', 'input.memberIds', input.memberIds).map(({ id }) => id),
        expiresAt: input.expiresAt ?? null,
        password: input.password,
        grant: input.grant,
      }),
  }),
  revokeApiKey: t.field({
    type: RevokeApiKeyResult,
    description:
      'Ends an API key at once, with the streams that are open by it. No password is needed: for a signed-in person its own keys, for an ADMIN anybody’s. A key may revoke itself, and others only with the scope ADMIN.',
    args: {
      input: t.arg({ type: RevokeApiKeyInput, required: true, description: 'Which.' }),
    },
    resolve: (_, { input }, context) =>
      revokeApiKey(context, {
        apiKeyId: idArgument('ApiKey', 'input.apiKeyId', input.apiKeyId).id,
        reason: input.reason ?? null,
      }),
  }),
}));
