import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Member } from '../../src/members/member.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import {
  type AccountsService,
  type By,
  browser,
  cookieOf,
  startAccountsService,
} from '../support/accounts-service.ts';

const password = 'canary-correct-horse';
const fields =
  'id name prefix scopes memberIds createdAt expiresAt lastUsedAt revokedAt member { login }';
const create = `mutation($input: CreateApiKeyInput!) {
  createApiKey(input: $input) {
    __typename
    ... on CreateApiKeyPayload { key apiKey { ${fields} } }
    ... on UserError { code message }
  }
}`;
const revoke = `mutation($input: RevokeApiKeyInput!) {
  revokeApiKey(input: $input) {
    __typename
    ... on RevokeApiKeyPayload { apiKey { ${fields} } }
    ... on UserError { code message }
  }
}`;
interface Made {
  readonly __typename: string;
  readonly code?: string;
  readonly key: string | null;
  readonly apiKey: {
    readonly id: string;
    readonly prefix: string;
    readonly revokedAt: string | null;
  };
}

let service: AccountsService;
let root: Member;
let alice: Member;
let bob: Member;
let rootCookie: string;
let aliceCookie: string;
beforeAll(async () => {
  service = await startAccountsService();
  root = await service.add('root-1', 'ADMIN', password);
  alice = await service.add('alice', 'DEVELOPER', password);
  bob = await service.add('bob', 'ANALYST');
  rootCookie = await session(root);
  aliceCookie = await session(alice);
});
afterAll(() => service?.[Symbol.asyncDispose]());

async function session({ login }: Member): Promise<string> {
  const answer = await service.post(
    `mutation { signIn(input: { login: "${login}", password: "${password}" }) { __typename } }`,
    {},
    { headers: browser(service.url) },
  );
  return cookieOf(answer) ?? '';
}

const idOf = ({ id }: Member) => encodeId({ type: 'Member', id });
const make = (by: By, owner: Member, input: object = {}) =>
  service.ask<Made>(
    create,
    {
      input: {
        idempotencyKey: randomUUID(),
        memberId: idOf(owner),
        name: 'a script',
        scopes: ['READ'],
        password,
        ...input,
      },
    },
    by,
  );
const end = (by: By, apiKeyId: string, reason?: string) =>
  service.ask<Made>(revoke, { input: { apiKeyId, reason } }, by);
const lastRows = async (number: number) => (await service.rows()).slice(-number);
const works = async (key: string) =>
  (await service.post('{ viewer { role } }', {}, { key })).status === 200;

describe('createApiKey', () => {
  it('gives the key once, stores its hash, and has both rows on record without it', async () => {
    const idempotencyKey = randomUUID();
    const input = { idempotencyKey, scopes: ['STREAM', 'READ'], memberIds: [idOf(alice)] };
    const [one, other] = await Promise.all([
      make({ cookie: aliceCookie }, alice, input),
      make({ cookie: aliceCookie }, alice, input),
    ]);
    const texts = [one.key, other.key].filter((key) => key !== null);
    expect(texts).toHaveLength(1);
    const [key = ''] = texts;
    expect(one.apiKey).toMatchObject({
      name: 'a script',
      scopes: ['READ', 'STREAM'],
      memberIds: [idOf(alice)],
      expiresAt: null,
      revokedAt: null,
      member: { login: 'alice' },
    });
    expect(key.startsWith(`${one.apiKey.prefix}_`)).toBe(true);
    expect(await works(key)).toBe(true);
    const again = await make({ cookie: aliceCookie }, alice, input);
    expect(again).toMatchObject({ key: null, apiKey: { id: one.apiKey.id } });
    expect(await make({ cookie: aliceCookie }, alice, { ...input, name: 'b' })).toMatchObject({
      code: 'EIDEMPOTENCY',
    });
    const [intent, outcome, conflict] = await lastRows(3);
    expect([intent?.phase, outcome?.outcome, conflict?.code]).toEqual([
      'INTENT',
      'SUCCEEDED',
      'EIDEMPOTENCY',
    ]);
    expect(outcome).toMatchObject({
      action: 'CREATE_API_KEY',
      actorId: alice.id,
      memberId: alice.id,
      targetId: one.apiKey.id,
      targetLabel: 'alice: a script',
    });
    expect(intent?.facts).toMatchObject({ scopes: 'READ STREAM', memberIds: alice.id });
    const secret = key.slice('mw_0123456789abcdef_'.length);
    const tables = ['api_keys', 'audit_events', 'idempotency_keys'];
    for (const table of tables) {
      const { rows } = await service.database.database.pool.query(
        `select coalesce(string_agg(t::text, ' '), '') as all from ${table} t`,
      );
      expect([table, rows[0].all.includes(secret)]).toEqual([table, false]);
    }
  });

  it('needs a person, or a key with ADMIN that an ADMIN made', async () => {
    const wrong = { password: 'canary-wrong-horse' };
    expect(await make({ cookie: aliceCookie }, alice, wrong)).toMatchObject({ code: 'EREAUTH' });
    expect(await lastRows(1)).toMatchObject([
      { action: 'CREATE_API_KEY', outcome: 'DENIED', code: 'EREAUTH' },
    ]);
    const grant = await service.ask<{ grant: string }>(
      `mutation($input: ReauthenticateInput!) {
        reauthenticate(input: $input) { ... on ReauthenticatePayload { grant } } }`,
      { input: { password, action: 'CREATE_API_KEY', memberId: idOf(alice) } },
      { cookie: aliceCookie },
    );
    const by = { password: undefined, ...grant };
    expect((await make({ cookie: aliceCookie }, alice, by)).key).toMatch(/^mw_/);
    expect(await make({ cookie: aliceCookie }, alice, by)).toMatchObject({ code: 'EREAUTH' });
    const bare = { password: undefined };
    const admin = { key: await service.key(root, { scopes: ['READ', 'ADMIN'] }) };
    expect((await make(admin, bob, bare)).key).toMatch(/^mw_/);
    const own = { key: await service.key(root, { madeByAdmin: false }) };
    expect(await make(own, bob, bare)).toMatchObject({ code: 'EREAUTH' });
    const reader = { key: await service.key(root, { scopes: ['READ'] }) };
    expect(await make(reader, root, bare)).toMatchObject({ code: 'EREAUTH' });
  });

  it('makes 100 for one member and no more; one that has ended makes room', async () => {
    const many = await service.add('many', 'DEVELOPER');
    const admin = { key: await service.key(root) };
    const wanted = { memberId: many.id, name: 'one of many', scopes: ['READ'] as const };
    const rest = { memberIds: null, expiresAt: null, madeByAdmin: true };
    await Promise.all(
      Array.from({ length: 99 }, () => service.keys.create({ ...wanted, ...rest })),
    );
    await service.accounts.reload();
    const last = await make(admin, many);
    expect(last.key).toMatch(/^mw_/);
    await expect(make(admin, many)).rejects.toThrow(/has 100 keys already/);
    await end(admin, last.apiKey.id);
    expect((await make(admin, many)).key).toMatch(/^mw_/);
  });

  it('asks for no READ: nothing is read to make a key', async () => {
    const blind = { key: await service.key(root, { scopes: ['ACT', 'ADMIN'] }) };
    const input = { password: undefined, scopes: ['ACT'] };
    for (const owner of [root, bob])
      expect(await make(blind, owner, { ...input, memberIds: [idOf(alice)] })).toMatchObject({
        apiKey: { member: { login: owner.login }, memberIds: [idOf(alice)] },
      });
    expect(await make(blind, { ...bob, id: randomUUID() }, input)).toMatchObject({
      code: 'ENOTFOUND',
    });
    const some = {
      key: await service.key(root, { scopes: ['ACT', 'ADMIN'], memberIds: [alice.id] }),
    };
    for (const owner of [bob, { ...bob, id: randomUUID() }])
      expect(await make(some, owner, { ...input, memberIds: [idOf(alice)] })).toMatchObject({
        code: 'ENOTFOUND',
      });
    // Of its owner alone, for whom a person gives the password again.
    const own = { key: await service.key(alice, { scopes: ['ACT'], madeByAdmin: false }) };
    const by = { scopes: ['ACT'] };
    expect(await make(own, alice, { ...by, memberIds: [idOf(alice)] })).toMatchObject({
      apiKey: { member: { login: 'alice' } },
    });
    expect(await make(own, alice, { ...by, memberIds: [idOf(bob)] })).toMatchObject({
      code: 'ENOTFOUND',
    });
  });

  it('makes nothing that its maker could not do, and none for others but as an ADMIN', async () => {
    const forbidden = /FORBIDDEN/;
    const narrow = { key: await service.key(alice, { scopes: ['READ', 'ACT'] }) };
    await expect(make(narrow, alice, { scopes: ['READ', 'STREAM'] })).rejects.toThrow(forbidden);
    expect(await lastRows(1)).toMatchObject([{ outcome: 'DENIED', action: 'CREATE_API_KEY' }]);
    const some = { key: await service.key(root, { memberIds: [root.id, alice.id] }) };
    await expect(make(some, root)).rejects.toThrow(forbidden);
    await expect(make(some, root, { memberIds: [idOf(bob)] })).rejects.toThrow(forbidden);
    expect((await make(some, root, { memberIds: [idOf(alice)] })).key).toMatch(/^mw_/);
    const soon = new Date(Date.now() + 3_600_000);
    const ending = { key: await service.key(alice, { expiresAt: soon }) };
    await expect(make(ending, alice)).rejects.toThrow(forbidden);
    const later = new Date(soon.getTime() + 1).toISOString();
    await expect(make(ending, alice, { expiresAt: later })).rejects.toThrow(forbidden);
    expect((await make(ending, alice, { expiresAt: soon.toISOString() })).key).toMatch(/^mw_/);
    // An ANALYST sees root, a DEVELOPER does not even know it.
    const analyst = { key: await service.key(bob) };
    await expect(make(analyst, root)).rejects.toThrow(forbidden);
    expect(await make({ cookie: aliceCookie }, root)).toMatchObject({ code: 'ENOTFOUND' });
    expect(await make({ cookie: aliceCookie }, alice, { memberIds: [idOf(bob)] })).toMatchObject({
      code: 'ENOTFOUND',
    });
    expect(await make({ cookie: rootCookie }, { ...bob, id: randomUUID() })).toMatchObject({
      code: 'ENOTFOUND',
    });
  });

  it('names what is wrong with the key', async () => {
    for (const [input, said] of [
      [{ name: ' ' }, /input.name/],
      [{ name: 'x'.repeat(101) }, /input.name/],
      [{ name: 'a\0b' }, /input.name/],
      [{ name: 'half of a pair: \ud83d' }, /input.name/],
      [{ name: 'two\nlines' }, /input.name/],
      [{ scopes: [] }, /input.scopes/],
      [{ scopes: ['ADMIN'] }, /for keys of an ADMIN/],
      [{ memberIds: [] }, /input.memberIds/],
      [{ memberIds: ['x'] }, /input.memberIds\[0\]/],
      [{ expiresAt: '2001-01-01T00:00:00Z' }, /in the past/],
      [{ idempotencyKey: '' }, /input.idempotencyKey/],
      [{ memberId: 'x' }, /input.memberId/],
    ] as const)
      await expect(make({ cookie: aliceCookie }, alice, input)).rejects.toThrow(said);
  });

  it('says RESTART stands for a password only where an ADMIN made the key', async () => {
    const own = await make({ cookie: aliceCookie }, alice, { scopes: ['RESTART'] });
    const given = await make({ cookie: rootCookie }, alice, { scopes: ['RESTART'] });
    const viewers = await Promise.all(
      [own, given].map(({ key }) => service.accounts.authenticateKey(key ?? '')),
    );
    expect(viewers.map((viewer) => viewer?.madeByAdmin)).toEqual([false, true]);
  });
});

describe('revokeApiKey', () => {
  it('ends a key at once without a password, with both rows on record, as often as it comes', async () => {
    const made = await make({ cookie: aliceCookie }, alice);
    expect(await works(made.key ?? '')).toBe(true);
    const ended = await end({ cookie: aliceCookie }, made.apiKey.id, 'lost');
    expect(ended.apiKey.revokedAt).toEqual(expect.any(String));
    expect(await works(made.key ?? '')).toBe(false);
    const rows = await lastRows(2);
    expect(rows.map(({ phase, outcome }) => outcome ?? phase)).toEqual(['INTENT', 'SUCCEEDED']);
    expect(rows[1]).toMatchObject({
      action: 'REVOKE_API_KEY',
      memberId: alice.id,
      targetId: made.apiKey.id,
      targetLabel: 'alice: a script',
      statedReason: 'lost',
    });
    expect(await end({ cookie: aliceCookie }, made.apiKey.id)).toEqual(ended);
    expect(await lastRows(1)).toMatchObject([{ message: 'It was revoked before.' }]);
  });

  it('is for a person its own keys, for a key itself, and for an ADMIN everybody’s', async () => {
    const one = await make({ cookie: aliceCookie }, alice);
    const other = await make({ cookie: aliceCookie }, alice);
    const bobs = await make({ cookie: rootCookie }, bob);
    const unknown = encodeId({ type: 'ApiKey', id: randomUUID() });
    for (const id of [bobs.apiKey.id, unknown]) {
      const answer = await end({ cookie: aliceCookie }, id);
      expect(answer).toEqual(await end({ cookie: aliceCookie }, unknown));
      expect(answer).toMatchObject({ code: 'ENOTFOUND' });
      expect(await lastRows(1)).toMatchObject([{ outcome: 'DENIED', code: 'ENOTFOUND' }]);
    }
    const as = { key: one.key ?? '' };
    await expect(end(as, other.apiKey.id)).rejects.toThrow(/FORBIDDEN/);
    expect((await end(as, one.apiKey.id)).apiKey.revokedAt).not.toBeNull();
    expect((await end({ cookie: rootCookie }, bobs.apiKey.id)).apiKey.revokedAt).not.toBeNull();
  });
});
