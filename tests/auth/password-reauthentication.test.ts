import { beforeAll, describe, expect, it } from 'vitest';
import type { Grants } from '../../src/auth/grants.ts';
import { PasswordProof } from '../../src/auth/password-proof.ts';
import { PasswordReauthentication } from '../../src/auth/password-reauthentication.ts';
import { hashPassword } from '../../src/auth/passwords.ts';
import { ReauthenticationRequiredError } from '../../src/auth/reauthentication.ts';
import { SignIn } from '../../src/auth/sign-in.ts';
import type { Scope, Viewer } from '../../src/auth/viewer.ts';
import type { Member } from '../../src/members/member.ts';
import { FakeClock } from '../support/fake-clock.ts';

let hash: string;
beforeAll(async () => {
  hash = await hashPassword('correct horse');
});

function member(login: string): Member {
  const createdAt = new Date(0);
  return { id: `id-${login}`, login, role: 'DEVELOPER', osUser: login, disabled: false, createdAt };
}

function viewer(login: string, more: Partial<Viewer> = {}): Viewer {
  return {
    member: member(login),
    scopes: new Set(['READ', 'STREAM', 'ACT', 'RESTART', 'ADMIN']),
    memberIds: null,
    via: 'SESSION',
    credentialId: 'c',
    madeByAdmin: false,
    expiresAt: null,
    ...more,
  };
}

/** Alice and bob have the password, carol has none. */
function setUp() {
  const clock = new FakeClock();
  const accounts = {
    passwordHash: (id: string) =>
      id === 'id-carol' ? null : ['id-alice', 'id-bob'].includes(id) ? hash : undefined,
    memberByLogin: (login: string) =>
      ['alice', 'bob', 'carol'].includes(login) ? member(login) : undefined,
  };
  const members = { rehash: () => Promise.reject(new Error('nothing is outdated here')) };
  const proof = new PasswordProof(accounts, members, clock);
  const grants = {} as Grants;
  const reauthentication = new PasswordReauthentication(accounts, proof, grants, '/state');
  const refusal = async (
    who: Viewer,
    password: string | undefined,
    address: string,
    action = 'RESTART_TMUX_SERVER',
  ) => {
    const act = { action, targets: [], memberId: null };
    const error = await reauthentication.require(who, { password }, address, act).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (error === undefined || error instanceof ReauthenticationRequiredError) return error;
    throw error;
  };
  return { clock, accounts, refusal };
}

it('is satisfied by the own password, and by a key with RESTART that an ADMIN made', async () => {
  const { refusal } = setUp();
  expect(await refusal(viewer('alice'), 'correct horse', '::1')).toBeUndefined();
  const key = { via: 'API_KEY', madeByAdmin: true } as const;
  expect(await refusal(viewer('carol', key), undefined, '::1')).toBeUndefined();
  for (const lesser of [
    { ...key, madeByAdmin: false },
    { ...key, scopes: new Set(['READ', 'ACT', 'ADMIN'] as const) },
    { madeByAdmin: true },
  ]) {
    expect(await refusal(viewer('alice', lesser), undefined, '::1')).toBeDefined();
  }
});

it('says how one without a password gets on, and asks for one that is missing, at no cost', async () => {
  const { refusal } = setUp();
  const none = await refusal(viewer('carol'), 'whatever', '::1');
  expect(none?.message).toContain('muxwarden members passwd carol');
  expect(none?.message).toContain('/state/admin.key');
  for (let round = 0; round < 9; round += 1) {
    const missing = await refusal(viewer('alice'), undefined, '::1');
    expect(missing?.message).toContain('`password`');
  }
  expect(await refusal(viewer('alice'), 'correct horse', '::1')).toBeUndefined();
});

it('refuses the sixth try in 15 minutes even with the right password, and nobody else', async () => {
  const { clock, refusal } = setUp();
  for (const left of [4, 3, 2, 1, 0]) {
    const error = await refusal(viewer('alice'), 'wrong horse', `10.0.0.${left}`);
    expect(error?.attemptsLeft).toBe(left);
    expect(error?.retryAt).toEqual(left > 0 ? null : new Date(clock.now() + 900_000));
  }
  const sixth = await refusal(viewer('alice'), 'correct horse', '::1');
  expect(sixth?.attemptsLeft).toBe(0);
  expect(sixth?.retryAt).toEqual(new Date(clock.now() + 900_000));
  expect(await refusal(viewer('bob'), 'correct horse', '::1')).toBeUndefined();
  await clock.advance(900_000);
  expect(await refusal(viewer('alice'), 'correct horse', '::1')).toBeUndefined();
});

it('counts tries side by side one by one, and lets a burst of right ones through together', async () => {
  const { refusal } = setUp();
  const right = await Promise.all(
    Array.from({ length: 50 }, () => refusal(viewer('bob'), 'correct horse', '::1')),
  );
  expect(right.every((error) => error === undefined)).toBe(true);
  const wrong = await Promise.all(
    Array.from({ length: 10 }, () => refusal(viewer('alice'), 'wrong horse', '::1')),
  );
  expect(wrong.map((error) => error?.attemptsLeft)).toEqual([4, 3, 2, 1, 0, 0, 0, 0, 0, 0]);
});

it('does not take another password because the right one came a moment ago', async () => {
  const { clock, refusal } = setUp();
  expect(await refusal(viewer('alice'), 'correct horse', '::1')).toBeUndefined();
  expect(await refusal(viewer('alice'), 'correct horsf', '::1')).toBeDefined();
  await clock.advance(10_000);
  expect(clock.pending).toBe(0);
});

it('refuses the sixth try also when the right password came a moment ago', async () => {
  const { refusal } = setUp();
  expect(await refusal(viewer('alice'), 'correct horse', '::1')).toBeUndefined();
  for (let miss = 0; miss < 5; miss += 1) await refusal(viewer('alice'), 'wrong horse', '::1');
  expect(await refusal(viewer('alice'), 'correct horse', '::1')).toMatchObject({ attemptsLeft: 0 });
});

it('takes a key with ADMIN for acts on accounts, and one with RESTART for tmux servers', async () => {
  const { refusal } = setUp();
  const key = (scope: Scope) =>
    viewer('alice', { via: 'API_KEY', madeByAdmin: true, scopes: new Set([scope]) });
  expect(await refusal(key('ADMIN'), undefined, '::1', 'CREATE_API_KEY')).toBeUndefined();
  expect(await refusal(key('ADMIN'), undefined, '::1', 'DELETE_MEMBER')).toBeUndefined();
  expect(await refusal(key('RESTART'), undefined, '::1', 'DELETE_MEMBER')).toBeDefined();
  expect(await refusal(key('ADMIN'), undefined, '::1', 'REPAIR_TMUX_SERVER')).toBeDefined();
});

describe('sign-in', () => {
  const known: string[] = [];
  function door() {
    const begun: string[] = [];
    const { accounts, clock } = setUp();
    const sessions = {
      begin: async (memberId: string) => {
        begun.push(memberId);
        return { id: 's', memberId, token: 't', expiresAt: new Date(0) };
      },
      knows: async (login: string, address: string | null) => known.includes(`${login} ${address}`),
    };
    const store = {
      ...accounts,
      reload: async () => {},
      authenticateSession: async () => viewer('alice'),
    };
    const members = { rehash: () => Promise.reject(new Error('nothing is outdated here')) };
    const signIn = new SignIn(store, new PasswordProof(store, members, clock), sessions, clock);
    const enter = async (login: string, password: string, address: string) => {
      const end = await signIn.signIn(login, password, address);
      return end.kind === 'IN' ? end.viewer.member.login : end;
    };
    return { clock, begun, enter };
  }

  it('looks alike for whoever may not come in', async () => {
    const { enter } = door();
    const ends = [
      await enter('nobody', 'correct horse', '10.0.0.2'),
      await enter('carol', 'correct horse', '10.0.0.2'),
      await enter('bob', 'wrong horse', '10.0.0.2'),
    ];
    const errors = ends.map((end) => (typeof end === 'string' ? end : end.error));
    expect(errors[0]).toEqual(errors[2]);
    expect(errors[1]).toEqual(errors[2]);
  });

  it('is locked by strangers for nobody elsewhere', async () => {
    const { begun, enter } = door();
    for (let round = 0; round < 6; round += 1) await enter('alice', 'wrong horse', '10.6.6.6');
    expect(await enter('alice', 'correct horse', '10.6.6.6')).toMatchObject({
      error: { attemptsLeft: 0 },
    });
    expect(await enter('alice', 'correct horse', '10.0.0.1')).toBe('alice');
    expect(begun).toEqual(['id-alice']);
  });

  it('counts all addresses of one IPv6 network as one place', async () => {
    const { enter } = door();
    for (let host = 1; host <= 5; host += 1)
      await enter('alice', 'wrong horse', `2001:db8:0:7::${host}`);
    expect(await enter('alice', 'correct horse', '2001:db8:0:7:ffff::1')).toMatchObject({
      error: { attemptsLeft: 0 },
    });
    expect(await enter('alice', 'correct horse', '2001:db8:0:8::1')).toBe('alice');
  });

  it('goes on from known places once the tries of everybody are used up', async () => {
    const { enter } = door();
    known.push('alice 10.0.0.1');
    // 250 places of two misses each: more would take as long and say no more.
    for (let miss = 0; miss < 500; miss += 1)
      await enter(`stranger-${miss}`, 'x'.repeat(1_025), `10.1.${miss % 250}.1`);
    expect(await enter('alice', 'correct horse', '10.0.0.9')).toMatchObject({
      error: { attemptsLeft: 0 },
    });
    expect(await enter('alice', 'correct horse', '10.0.0.1')).toBe('alice');
  });

  it('puts each try on record, and of refusals without one the first of a place', async () => {
    const { enter, clock } = door();
    const forTheRecord = async (address: string) => {
      const end = await enter('alice', 'wrong horse', address);
      return typeof end !== 'string' && end.forTheRecord;
    };
    const said: boolean[] = [];
    for (let round = 0; round < 9; round += 1) said.push(await forTheRecord('10.6.6.6'));
    expect(said).toEqual([true, true, true, true, true, true, false, false, false]);
    await clock.advance(900_000);
    expect(await forTheRecord('10.6.6.6')).toBe(true);
  });
});
