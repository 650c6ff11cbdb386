import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { AuditUnavailableError } from '../../src/audit/audit.ts';
import { Sessions } from '../../src/auth/sessions.ts';
import type { Member } from '../../src/members/member.ts';
import {
  type AccountsService,
  browser,
  cookieOf,
  startAccountsService,
} from '../support/accounts-service.ts';

const password = 'canary-correct-horse';
const wrong = 'canary-wrong-horse';
const signIn = `mutation($login: String!, $password: String!) {
  signIn(input: { login: $login, password: $password }) {
    __typename
    ... on SignInPayload { viewer { via role expiresAt member { login listing { state } } } }
    ... on ReauthenticationRequiredError { code message attemptsLeft retryAt }
    ... on AuditUnavailableError { code }
  }
}`;
const whoAmI = '{ viewer { via member { login } } }';

let service: AccountsService;
let alice: Member;
let count = 0;
beforeAll(async () => {
  service = await startAccountsService();
});
afterAll(() => service?.[Symbol.asyncDispose]());
beforeEach(async () => {
  count += 1;
  alice = await service.add(`alice-${count}`, 'DEVELOPER', password);
});

/** Every test comes from an address of its own, or five misses of one would be another's. */
const enter = (login: string, given: string, headers: Record<string, string> = {}) =>
  service.post(
    signIn,
    { login, password: given },
    { headers: { ...browser(service.url), ...headers } },
  );
const rowsSince = async (sequence: number) =>
  (await service.rows()).filter((row) => row.sequence > sequence);
const lastSequence = async () => (await service.rows()).at(-1)?.sequence ?? 0;

describe('signIn', () => {
  it('sets the cookie of a new session, stored as a hash, and puts it on record', async () => {
    const before = await lastSequence();
    const answer = await enter(alice.login, password);
    expect(answer.data).toMatchObject({
      signIn: {
        __typename: 'SignInPayload',
        viewer: {
          via: 'SESSION',
          role: 'DEVELOPER',
          member: { login: alice.login, listing: { state: 'UNKNOWN' } },
        },
      },
    });
    const set = answer.headers.get('set-cookie') ?? '';
    expect(set).toMatch(/^muxwarden=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Expires=/);
    const cookie = cookieOf(answer) ?? '';
    const token = cookie.split('=')[1] ?? '';
    expect(JSON.stringify(answer.data)).not.toContain(token);
    expect(await service.ask(whoAmI, {}, { cookie })).toEqual({
      via: 'SESSION',
      member: { login: alice.login },
    });
    const { rows } = await service.database.database.pool.query(
      'select sessions::text as all from sessions where member_id = $1',
      [alice.id],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0].all).not.toContain(token);
    expect(await rowsSince(before)).toMatchObject([
      {
        action: 'SIGN_IN',
        phase: 'OUTCOME',
        outcome: 'SUCCEEDED',
        actorId: alice.id,
        memberId: alice.id,
        targetLabel: alice.login,
        actorAddress: '127.0.0.1',
      },
    ]);
  });

  it('leaves no session behind when somebody who is signed in signs in again', async () => {
    const first = cookieOf(await enter(alice.login, password)) ?? '';
    const second = cookieOf(await enter(alice.login, password, { cookie: first })) ?? '';
    expect(second).toMatch(/^muxwarden=[\w-]{43}$/);
    expect(second).not.toBe(first);
    expect((await service.post(whoAmI, {}, { cookie: first })).status).toBe(401);
    expect((await service.post(whoAmI, {}, { cookie: second })).status).toBe(200);
  });

  it('answers a miss with data, DENIED on record, and the tries that are left', async () => {
    const before = await lastSequence();
    const missed = await enter(alice.login, wrong);
    expect(missed.data?.signIn).toMatchObject({
      __typename: 'ReauthenticationRequiredError',
      code: 'EREAUTH',
      attemptsLeft: 4,
      retryAt: null,
    });
    expect(missed.headers.get('set-cookie')).toBeNull();
    const unknown = await enter('canary-typed-into-the-wrong-field', wrong);
    expect(unknown.data).toEqual(missed.data);
    const [one, other] = await rowsSince(before);
    expect(one).toMatchObject({
      action: 'SIGN_IN',
      outcome: 'DENIED',
      code: 'EREAUTH',
      actorId: null,
      memberId: alice.id,
      targetLabel: alice.login,
    });
    expect(other).toMatchObject({
      outcome: 'DENIED',
      actorId: null,
      memberId: null,
      targetLabel: null,
      facts: { loginDigest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
  });

  it('is refused the sixth time, also with the right password, while who is in goes on', async () => {
    const cookie = cookieOf(await enter(alice.login, password)) ?? '';
    for (let miss = 0; miss < 5; miss += 1) await enter(alice.login, wrong);
    const sixth = await enter(alice.login, password);
    expect(sixth.data?.signIn).toMatchObject({ attemptsLeft: 0, retryAt: expect.any(String) });
    expect((await service.post(whoAmI, {}, { cookie })).status).toBe(200);
  });

  it('takes only a request that no page of another site can make', async () => {
    for (const [headers, said] of [
      [{ 'x-muxwarden-csrf': '1' }, /^Signing in sets a cookie, so it needs an Origin/],
      [{ origin: service.url }, /^Signing in sets a cookie, so it .*x-muxwarden-csrf/],
    ] as const) {
      const answer = await service.post(signIn, { login: alice.login, password }, { headers });
      expect(answer.errors).toMatchObject([
        { message: expect.stringMatching(said), extensions: { code: 'FORBIDDEN' } },
      ]);
      expect(answer.headers.get('set-cookie')).toBeNull();
    }
    const foreign = await enter(alice.login, password, { origin: 'http://evil.example' });
    expect([foreign.status, foreign.headers.get('set-cookie')]).toEqual([403, null]);
  });

  it('is the one thing that nobody in particular may ask', async () => {
    const headers = browser(service.url);
    const anonymous = async (query: string, variables: object = {}) =>
      (await service.post(query, variables, { headers })).status;
    for (const query of [
      whoAmI,
      '{ __schema { types { name } } }',
      '{ __typename }',
      'mutation { signOut }',
      `${signIn} query Other ${whoAmI}`,
      'mutation { ...All } fragment All on Mutation { signOut }',
      'mutation { a: signIn(input: {login: "a", password: "b"}) { __typename } signOut }',
      'subscription { listingChanged { __typename } }',
      'mutation { signIn(',
      '',
    ])
      expect([query, await anonymous(query)]).toEqual([query, 401]);
    const big = { login: alice.login, password, more: 'x'.repeat(9_000) };
    expect(await anonymous(signIn, big)).toBe(401);
    const aliases = (name: string) =>
      `${name}: signIn(input: { login: "${alice.login}", password: "${wrong}" }) { __typename }`;
    const before = await lastSequence();
    const many = await service.post(
      `mutation { ${aliases('a')} ${aliases('b')} }`,
      {},
      { headers },
    );
    expect(many.errors).toMatchObject([{ extensions: { code: 'BAD_USER_INPUT' } }]);
    expect(await rowsSince(before)).toEqual([]);
  });

  it('gives no session that could not be put on record', async () => {
    const { append } = service.audit;
    service.audit.append = () => Promise.reject(new AuditUnavailableError('The disk is full.'));
    try {
      for (const given of [password, wrong]) {
        const answer = await enter(alice.login, given);
        expect(answer.data?.signIn).toEqual({
          __typename: 'AuditUnavailableError',
          code: 'EAUDIT',
        });
        expect(answer.headers.get('set-cookie')).toBeNull();
      }
    } finally {
      service.audit.append = append;
    }
    const { rows } = await service.database.database.pool.query(
      'select id from sessions where member_id = $1 and ended_at is null',
      [alice.id],
    );
    expect(rows).toEqual([]);
  });

  it('says over a WebSocket where it is to be done', async () => {
    const key = await service.key(alice);
    const socket = new WebSocket(`${service.url.replace('http', 'ws')}/graphql`, [
      'graphql-transport-ws',
    ]);
    const messages: { type: string; payload?: unknown }[] = [];
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject);
      socket.once('open', () =>
        socket.send(
          JSON.stringify({ type: 'connection_init', payload: { Authorization: `Bearer ${key}` } }),
        ),
      );
      socket.on('message', (data) => {
        const message = JSON.parse(String(data));
        messages.push(message);
        if (message.type === 'connection_ack')
          socket.send(
            JSON.stringify({
              id: '1',
              type: 'subscribe',
              payload: { query: signIn, variables: { login: alice.login, password } },
            }),
          );
        if (message.type === 'complete' || message.type === 'error') resolve();
      });
    });
    socket.close();
    expect(JSON.stringify(messages)).toContain('POST it to /graphql');
    expect(JSON.stringify(messages)).toContain('BAD_USER_INPUT');
  });
});

describe('signOut', () => {
  it('ends every session of the account, takes the cookie back and is on record', async () => {
    const here = cookieOf(await enter(alice.login, password)) ?? '';
    const there = cookieOf(await enter(alice.login, password)) ?? '';
    const link = await new Sessions(service.database.database).createLink(alice.id);
    const before = await lastSequence();
    const out = await service.post('mutation { signOut }', {}, { cookie: here });
    expect(out.data).toEqual({ signOut: true });
    expect(out.headers.get('set-cookie')).toMatch(/^muxwarden=; .*Expires=Thu, 01 Jan 1970/);
    for (const cookie of [here, there])
      expect((await service.post(whoAmI, {}, { cookie })).status).toBe(401);
    expect(
      await new Sessions(service.database.database).redeemLink(link.token, null),
    ).toBeUndefined();
    expect(await rowsSince(before)).toMatchObject([
      { action: 'SIGN_OUT', outcome: 'SUCCEEDED', actorId: alice.id, memberId: alice.id },
    ]);
    // Nobody is locked out by it.
    expect(cookieOf(await enter(alice.login, password))).toBeDefined();
  });

  it('is false for a key, which goes on', async () => {
    const key = await service.key(alice);
    expect(await service.ask('mutation { signOut }', {}, { key })).toBe(false);
    expect((await service.post(whoAmI, {}, { key })).status).toBe(200);
  });
});

describe('a sign-in link', () => {
  it('leaves a row as well', async () => {
    const { token } = await new Sessions(service.database.database).createLink(alice.id);
    const before = await lastSequence();
    const response = await fetch(`${service.url}/sign-in`, {
      method: 'POST',
      redirect: 'manual',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        origin: service.url,
      },
      body: new URLSearchParams({ token }),
    });
    expect(response.status).toBe(303);
    expect(await rowsSince(before)).toMatchObject([
      {
        action: 'SIGN_IN',
        outcome: 'SUCCEEDED',
        actorId: alice.id,
        message: 'By a sign-in link.',
      },
    ]);
  });
});
