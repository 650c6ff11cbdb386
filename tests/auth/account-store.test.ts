import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type AccountStore, openAccounts } from '../../src/auth/account-store.ts';
import { ApiKeys, type NewApiKey } from '../../src/auth/api-keys.ts';
import { Grants } from '../../src/auth/grants.ts';
import { Sessions, sessionIdleMs, sessionMaxMs } from '../../src/auth/sessions.ts';
import { systemClock } from '../../src/concurrency/clock.ts';
import type { Member } from '../../src/members/member.ts';
import { MemberExistsError, MemberNotFoundError, Members } from '../../src/members/members.ts';
import { FakeClock } from '../support/fake-clock.ts';
import {
  databaseKinds,
  openTestDatabase,
  type PostgresServer,
  startPostgresServer,
  type TestDatabase,
} from '../support/postgres.ts';
import { eventually } from '../support/tmux-server.ts';

describe.each(databaseKinds)('accounts (%s)', (kind) => {
  let test: TestDatabase;
  let accounts: AccountStore;
  let members: Members;
  let keys: ApiKeys;
  let sessions: Sessions;
  let alice: Member;

  beforeAll(async () => {
    test = await openTestDatabase(kind);
    members = new Members(test.database);
    keys = new ApiKeys(test.database);
    sessions = new Sessions(test.database);
  }, 120_000);
  afterAll(() => test?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    alice = await members.add({
      login: `a${randomUUID().slice(0, 8)}`,
      role: 'DEVELOPER',
      osUser: null,
    });
    accounts = await openAccounts(test.database);
  });
  afterEach(() => accounts[Symbol.asyncDispose]());

  const keyOf = (owner: Member, more: Partial<NewApiKey> = {}) =>
    keys.create({
      memberId: owner.id,
      name: 'a key',
      scopes: ['READ', 'RESTART'],
      memberIds: null,
      expiresAt: null,
      madeByAdmin: false,
      ...more,
    });

  it('knows a key at once after it was made, with its scopes and members, and only with its secret', async () => {
    const { apiKey, key } = await keyOf(alice, { memberIds: [alice.id], madeByAdmin: true });
    const viewer = await accounts.authenticateKey(key);
    expect(viewer).toMatchObject({
      member: { id: alice.id },
      via: 'API_KEY',
      credentialId: apiKey.id,
      madeByAdmin: true,
    });
    expect([...(viewer?.scopes ?? [])].sort()).toEqual(['READ', 'RESTART']);
    expect([...(viewer?.memberIds ?? [])]).toEqual([alice.id]);
    const other = key.slice(0, -1) + (key.endsWith('A') ? 'B' : 'A');
    expect(await accounts.authenticateKey(other)).toBeUndefined();
    expect(
      await accounts.authenticateKey(`mw_${'0'.repeat(16)}_${'A'.repeat(43)}`),
    ).toBeUndefined();
    const { rows } = await test.database.pool.query(
      `select api_keys::text as all from api_keys where id = $1`,
      [apiKey.id],
    );
    expect(rows[0].all).not.toContain(key.slice('mw_0123456789abcdef_'.length));
  });

  it('ends the authority of a key within a second of its revocation, wherever that was done', async () => {
    const { apiKey, key } = await keyOf(alice);
    const viewer = await accounts.authenticateKey(key);
    expect(viewer && accounts.current(viewer)).toBeDefined();
    const rung = accounts.changed.wait();
    await keys.revoke(apiKey.id);
    await rung;
    await eventually(
      () => viewer && accounts.current(viewer) === undefined,
      'it is revoked',
      5_000,
    );
    expect(await accounts.authenticateKey(key)).toBeUndefined();
    expect(await keys.revoke(apiKey.id)).toBe(false);
    expect(accounts.apiKeys().find(({ id }) => id === apiKey.id)?.revokedAt).toBeInstanceOf(Date);
  });

  it('follows disabling, enabling and a new role, also by a hand in the database', async () => {
    const { key } = await keyOf(alice);
    const viewer = await accounts.authenticateKey(key);
    if (viewer === undefined) throw new Error('no viewer');
    await members.change(alice.id, { disabled: true });
    await eventually(() => accounts.current(viewer) === undefined, 'disabled');
    expect(accounts.member(alice.id)?.disabled).toBe(true);
    await members.change(alice.id, { disabled: false });
    await eventually(() => accounts.current(viewer) !== undefined, 'enabled');
    await test.database.pool.query(`update members set role = 'ANALYST' where id = $1`, [alice.id]);
    await eventually(() => accounts.current(viewer)?.member.role === 'ANALYST', 'the role');
  });

  it('shows the same members, as objects, as long as nothing about them changes', async () => {
    const { key } = await keyOf(alice);
    const before = accounts.members();
    await keyOf(alice);
    await accounts.reload();
    expect(accounts.members()).toBe(before);
    expect((await accounts.authenticateKey(key))?.member).toBe(accounts.member(alice.id));
    await test.database.pool.query(`update members set role = 'ANALYST' where id = $1`, [alice.id]);
    await accounts.reload();
    expect(accounts.members()).not.toBe(before);
    expect((await accounts.authenticateKey(key))?.member.role).toBe('ANALYST');
  });

  it('lets a key end at its time', async () => {
    const clock = new FakeClock(Date.now());
    await using later = await openAccounts(test.database, clock);
    const { key } = await keyOf(alice, { expiresAt: new Date(clock.now() + 60_000) });
    await later.reload();
    const viewer = await later.authenticateKey(key);
    expect(viewer?.expiresAt?.getTime()).toBe(clock.now() + 60_000);
    await clock.jump(60_000);
    expect(viewer && later.current(viewer)).toBeUndefined();
    expect(await later.authenticateKey(key)).toBeUndefined();
  });

  it('lets what is over be over for good: for a clock that is set back, here and in whoever starts later', async () => {
    // Its clock is right, so it would end what is made here.
    await accounts[Symbol.asyncDispose]();
    const clock = new FakeClock(Date.now());
    const timed = new Sessions(test.database, clock);
    const grants = new Grants(test.database, clock);
    const act = { action: 'DELETE_MEMBER', targets: [], memberId: null };
    const everything = async (later: AccountStore) => {
      const { key } = await keyOf(alice, { expiresAt: new Date(clock.now() + 60_000) });
      const session = await timed.begin(alice.id, '192.0.2.1');
      const { token } = await timed.createLink(alice.id);
      await later.reload();
      const viewer = (await later.authenticateKey(key)) ?? expect.fail();
      const { grant } = await grants.give(viewer, act);
      await later.reload();
      expect(later.authenticateSession(session.token)).toBeDefined();
      expect(await grants.holds(viewer, grant, act)).toBe(true);
      return { key, session, token, viewer, grant };
    };
    const expectOver = async (
      later: AccountStore,
      { key, session, token, viewer, grant }: Awaited<ReturnType<typeof everything>>,
    ) => {
      expect(await later.authenticateKey(key)).toBeUndefined();
      expect(later.current(viewer)).toBeUndefined();
      const known = { ...viewer, via: 'SESSION' as const, credentialId: session.id };
      expect(later.current(known)).toBeUndefined();
      expect(await timed.redeemLink(token)).toBeUndefined();
      expect(await grants.holds(viewer, grant, act)).toBe(false);
    };
    const options = { reloadMs: 10 ** 12 };
    await using later = await openAccounts(test.database, clock, options);
    const seenOver = await everything(later);
    await clock.jump(sessionMaxMs);
    await later.reload();
    clock.setBack(30 * 86_400_000);
    await expectOver(later, seenOver);
    // Set back within its life: it ends when that time has really gone by.
    const within = await everything(later);
    clock.setBack(30 * 86_400_000);
    await clock.jump(sessionMaxMs);
    await later.reload();
    await expectOver(later, within);
    await using next = await openAccounts(test.database, new FakeClock(clock.now()), options);
    await expectOver(next, seenOver);
    await expectOver(next, within);
    // A clock that is ahead by mistake lets nobody in, and has ended nothing once it is right again.
    const ahead = await everything(later);
    clock.setBack(-30 * 86_400_000);
    await later.reload();
    expect(await later.authenticateKey(ahead.key)).toBeUndefined();
    expect(await later.authenticateSession(ahead.session.token)).toBeUndefined();
    // Whoever gets something new meanwhile takes nothing away from others.
    await timed.begin(alice.id, '192.0.2.2');
    await timed.createLink(alice.id);
    await grants.give(ahead.viewer, act);
    clock.setBack(30 * 86_400_000);
    await later.reload();
    expect(later.current(ahead.viewer)).toBeDefined();
    expect(await later.authenticateSession(ahead.session.token)).toBeDefined();
    expect(await timed.redeemLink(ahead.token)).toBeDefined();
    expect(await grants.holds(ahead.viewer, ahead.grant, act)).toBe(true);
    // Nobody was there when a grant and a link ended, and the clock is a day behind now.
    const alone = await everything(later);
    await using behind = await openAccounts(
      test.database,
      new FakeClock(clock.now() - 86_400_000),
      options,
    );
    expect(behind.current(alone.viewer)).toBeDefined();
    expect(await timed.redeemLink(alone.token)).toBeUndefined();
    expect(await grants.holds(alone.viewer, alone.grant, act)).toBe(false);
  });

  it('signs in by a link once, for one of two who come at once', async () => {
    const { token } = await sessions.createLink(alice.id);
    const both = await Promise.all([sessions.redeemLink(token), sessions.redeemLink(token)]);
    const [session, ...more] = both.filter((one) => one !== undefined);
    expect(more).toEqual([]);
    if (session === undefined) throw new Error('no session');
    const viewer = await accounts.authenticateSession(session.token);
    expect(viewer).toMatchObject({
      member: { id: alice.id },
      via: 'SIGN_IN_LINK',
      credentialId: session.id,
    });
    expect(viewer?.scopes.size).toBe(5);
    expect(await sessions.redeemLink(token)).toBeUndefined();
    expect(await sessions.redeemLink('A'.repeat(43))).toBeUndefined();
    expect(await sessions.end(session.id)).toBe(true);
    await eventually(() => viewer && accounts.current(viewer) === undefined, 'signed out');
    expect(await accounts.authenticateSession(session.token)).toBeUndefined();
  });

  it('takes no link after ten minutes, nor one of a disabled member', async () => {
    const clock = new FakeClock(Date.now());
    const timed = new Sessions(test.database, clock);
    const { token } = await timed.createLink(alice.id);
    await clock.jump(600_000);
    expect(await timed.redeemLink(token)).toBeUndefined();
    const { token: next } = await timed.createLink(alice.id);
    await members.change(alice.id, { disabled: true });
    expect(await timed.redeemLink(next)).toBeUndefined();
    // The one of before went with the disabling; this one comes after it.
    const { token: late } = await timed.createLink(alice.id);
    expect(await timed.redeemLink(late)).toBeUndefined();
  });

  it('ends every session of a member whose password is set', async () => {
    const session = await sessions.begin(alice.id, '192.0.2.1');
    const viewer = await accounts.authenticateSession(session.token);
    expect(viewer?.via).toBe('SESSION');
    await members.setPassword(alice.id, 'a hash');
    await eventually(() => viewer && accounts.current(viewer) === undefined, 'signed out');
    expect(accounts.passwordHash(alice.id)).toBe('a hash');
    expect(accounts.passwordHash(randomUUID())).toBeUndefined();
  });

  it('ends a session that is not used for twelve hours, and a used one after a week', async () => {
    const clock = new FakeClock(Date.now());
    await using timed = await openAccounts(test.database, clock, { reloadMs: 10 ** 12 });
    const idle = await new Sessions(test.database, clock).begin(alice.id, '192.0.2.1');
    const used = await new Sessions(test.database, clock).begin(alice.id, '192.0.2.1');
    await timed.reload();
    for (let hours = 0; hours < 11; hours += 1) {
      await clock.jump(sessionIdleMs / 11);
      expect(await timed.authenticateSession(used.token)).toBeDefined();
      await timed.reload();
    }
    const gone = timed.authenticateSession(idle.token);
    await clock.advance(200);
    await eventually(async () => {
      await clock.advance(2_000);
      return true;
    }, 'the guess ends');
    expect(await gone).toBeUndefined();
    const viewer = await timed.authenticateSession(used.token);
    await clock.jump(sessionMaxMs - sessionIdleMs);
    expect(viewer && timed.current(viewer)).toBeUndefined();
  });

  it('writes the last use behind, and shows it at once', async () => {
    const { apiKey, key } = await keyOf(alice);
    await accounts.reload();
    await accounts.authenticateKey(key);
    const shown = accounts.apiKeys().find(({ id }) => id === apiKey.id)?.lastUsedAt;
    expect(shown).toBeInstanceOf(Date);
    const stored = async () =>
      (await keys.list()).find(({ id }) => id === apiKey.id)?.lastUsedAt ?? null;
    expect(await stored()).toBeNull();
    await accounts[Symbol.asyncDispose]();
    expect(await stored()).toEqual(shown);
    accounts = await openAccounts(test.database);
  });

  it('refuses a second member of a login or a Linux user, and changes to nobody', async () => {
    const { login } = alice;
    const osUser = `u${randomUUID().slice(0, 8)}`;
    await members.add({ login: `${login}x`, role: 'ADMIN', osUser });
    const add = (name: string, user: string | null) =>
      members.add({ login: name, role: 'ADMIN', osUser: user }).catch((error) => error);
    expect(await add(login, null)).toBeInstanceOf(MemberExistsError);
    expect(await add(`${login}y`, osUser)).toMatchObject({ field: 'osUser' });
    await expect(members.byLogin('nobody-at-all')).rejects.toBeInstanceOf(MemberNotFoundError);
    await accounts.reload();
    const logins = accounts.members().map((member) => member.login);
    expect(logins).toEqual([...logins].sort());
    expect(accounts.memberByLogin(login)?.id).toBe(alice.id);
  });
});

describe('accounts while the database is away', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgresServer();
  }, 120_000);
  afterAll(() => server?.[Symbol.asyncDispose]());

  it('still know whom they knew, refuse the rest in bounded time, and catch up by themselves', async () => {
    await using test = await openTestDatabase('server', { server });
    const members = new Members(test.database);
    const keys = new ApiKeys(test.database);
    const alice = await members.add({ login: 'alice', role: 'ANALYST', osUser: null });
    const wanted = { memberId: alice.id, name: 'k', scopes: ['READ'] as const, memberIds: null };
    const { key } = await keys.create({ ...wanted, expiresAt: null, madeByAdmin: true });
    await using accounts = await openAccounts(test.database, systemClock, { reloadMs: 500 });
    await server.stop();
    expect(await accounts.authenticateKey(key)).toBeDefined();
    const started = performance.now();
    expect(
      await accounts.authenticateKey(`mw_${'0'.repeat(16)}_${'A'.repeat(43)}`),
    ).toBeUndefined();
    expect(performance.now() - started).toBeLessThan(20_000);
    expect(accounts.members().map(({ login }) => login)).toEqual(['alice']);
    await server.start();
    await eventually(
      () =>
        members.change(alice.id, { disabled: true }).then(
          () => true,
          () => undefined,
        ),
      'the database is back',
      30_000,
    );
    await eventually(() => accounts.member(alice.id)?.disabled, 'the change is known', 30_000);
  });
});
