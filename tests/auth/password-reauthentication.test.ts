import { beforeAll, expect, it } from 'vitest';
import { PasswordProof } from '../../src/auth/password-proof.ts';
import { PasswordReauthentication } from '../../src/auth/password-reauthentication.ts';
import { hashPassword } from '../../src/auth/passwords.ts';
import { ReauthenticationRequiredError } from '../../src/auth/reauthentication.ts';
import { signIn } from '../../src/auth/sign-in.ts';
import type { Viewer } from '../../src/auth/viewer.ts';
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
  const reauthentication = new PasswordReauthentication(accounts, proof, '/state');
  const refusal = async (...call: Parameters<PasswordReauthentication['require']>) => {
    const error = await reauthentication.require(...call).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (error === undefined || error instanceof ReauthenticationRequiredError) return error;
    throw error;
  };
  return { clock, accounts, proof, refusal };
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

it('signs in by login and password; strangers lock nobody out from elsewhere', async () => {
  const { accounts, proof } = setUp();
  const begun: string[] = [];
  const sessions = {
    begin: async (memberId: string) => {
      begun.push(memberId);
      return { id: 's', memberId, token: 't', expiresAt: new Date(0) };
    },
  };
  const enter = (login: string, password: string, address: string) =>
    signIn({ accounts, proof, sessions }, login, password, address).catch((error) => error);
  for (let round = 0; round < 6; round += 1) await enter('alice', 'wrong horse', '10.6.6.6');
  const locked = await enter('alice', 'correct horse', '10.6.6.6');
  expect(locked.attemptsLeft).toBe(0);
  await enter('alice', 'correct horse', '10.0.0.1');
  expect(begun).toEqual(['id-alice']);
  const [unknown, passwordless, wrong] = [
    await enter('nobody', 'correct horse', '10.0.0.2'),
    await enter('carol', 'correct horse', '10.0.0.2'),
    await enter('bob', 'wrong horse', '10.0.0.2'),
  ];
  expect(unknown).toEqual(wrong);
  expect(passwordless).toEqual(wrong);
});
