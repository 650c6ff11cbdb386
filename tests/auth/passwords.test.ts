import { argon2Sync } from 'node:crypto';
import { expect, it } from 'vitest';
import { checkPassword, hashPassword, PasswordsBusyError } from '../../src/auth/passwords.ts';

it('knows the right password from a wrong one, by a hash that shows its parameters', async () => {
  const hash = await hashPassword('correct horse');
  expect(hash).toMatch(/^argon2id\$v=19\$m=19456,t=2,p=1\$[\w-]{22}\$[\w-]{43}$/);
  expect(await hashPassword('correct horse')).not.toBe(hash);
  expect(await checkPassword('correct horse', hash)).toEqual({ right: true, outdated: false });
  expect(await checkPassword('correct horsf', hash)).toEqual({ right: false, outdated: false });
  expect(await checkPassword('', hash)).toEqual({ right: false, outdated: false });
});

it('takes the same characters typed in another composition for the same password', async () => {
  const hash = await hashPassword('caf\u00e9 au lait');
  expect((await checkPassword('cafe\u0301 au lait', hash)).right).toBe(true);
});

it('checks a hash of older rules by those, and tells that it is outdated', async () => {
  const salt = Buffer.from('0123456789abcdef');
  const old = argon2Sync('argon2id', {
    message: 'old password',
    nonce: salt,
    memory: 1_024,
    passes: 1,
    parallelism: 1,
    tagLength: 32,
  });
  const stored = `argon2id$v=19$m=1024,t=1,p=1$${salt.toString('base64url')}$${old.toString('base64url')}`;
  expect(await checkPassword('old password', stored)).toEqual({ right: true, outdated: true });
});

it('is never right where there is no password, and does the same work there', async () => {
  expect(await checkPassword('anything', null)).toEqual({ right: false, outdated: false });
});

it('refuses passwords that are too short or too long', async () => {
  await expect(hashPassword('1234567')).rejects.toThrow(/at least 8/);
  await expect(hashPassword('x'.repeat(1_025))).rejects.toThrow(/at most 1,024/);
});

it('refuses to queue without end, and goes on afterwards', async () => {
  const results = await Promise.allSettled(
    Array.from({ length: 50 }, () => checkPassword('x', null)),
  );
  const busy = results.filter(
    (result) => result.status === 'rejected' && result.reason instanceof PasswordsBusyError,
  );
  expect(busy).toHaveLength(8);
  expect(await checkPassword('x', null)).toMatchObject({ right: false });
});
