import { chmod, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openAccounts } from '../../src/auth/account-store.ts';
import { parseKey } from '../../src/auth/api-key.ts';
import { ApiKeys } from '../../src/auth/api-keys.ts';
import { bootstrap } from '../../src/auth/bootstrap.ts';
import { migrate } from '../../src/database/migrate.ts';
import { openDatabase } from '../../src/database/open.ts';
import { Members } from '../../src/members/members.ts';
import { openTestDatabase, startPostgresServer, type TestDatabase } from '../support/postgres.ts';
import { scratchDirectory } from '../support/scratch.ts';

const keyIn = async ({ config }: TestDatabase) =>
  (await readFile(join(config.stateDir, 'admin.key'), 'utf8')).trim();

it('makes an ADMIN for the user and a key with every scope, which the next start keeps', async () => {
  await using test = await openTestDatabase('embedded');
  const first = await bootstrap(test.database, test.config, 'Alice.B');
  expect(first.member).toMatchObject({ login: 'alice-b', role: 'ADMIN', osUser: 'Alice.B' });
  expect(first.madeKey).toBe(true);
  expect((await stat(join(test.config.stateDir, 'admin.key'))).mode & 0o777).toBe(0o600);
  await using accounts = await openAccounts(test.database);
  const key = await keyIn(test);
  const viewer = await accounts.authenticateKey(key);
  expect(viewer).toMatchObject({ madeByAdmin: true, memberIds: null, expiresAt: null });
  expect(viewer?.member.id).toBe(first.member.id);
  expect(viewer?.scopes.size).toBe(5);
  const again = await bootstrap(test.database, test.config, 'Alice.B');
  expect(again).toEqual({ ...first, madeKey: false });
  expect(await keyIn(test)).toBe(key);
});

it('replaces a key that is missing, broken, revoked or was readable by others, and revokes the old one', async () => {
  await using test = await openTestDatabase('embedded');
  await bootstrap(test.database, test.config, 'alice');
  const file = join(test.config.stateDir, 'admin.key');
  const keys = new ApiKeys(test.database);
  for (const spoil of [
    () => rm(file),
    () => writeFile(file, 'nonsense'),
    () => chmod(file, 0o644),
    async () => {
      const found = await keys.byPublicId(parseKey(await keyIn(test))?.publicId ?? '');
      await keys.revoke(found?.id ?? '');
    },
  ]) {
    const before = await keyIn(test);
    await spoil();
    expect((await bootstrap(test.database, test.config, 'alice')).madeKey).toBe(true);
    expect(await keyIn(test)).not.toBe(before);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const good = (await keys.list()).filter(({ revokedAt }) => revokedAt === null);
    expect(good.map(({ publicId }) => publicId)).toEqual([parseKey(await keyIn(test))?.publicId]);
  }
});

it('respects that somebody disabled the member or took its role, and takes a free login', async () => {
  await using test = await openTestDatabase('embedded');
  const members = new Members(test.database);
  await members.add({ login: 'alice', role: 'DEVELOPER', osUser: null });
  const { member } = await bootstrap(test.database, test.config, 'alice');
  expect(member.login).toBe('alice-2');
  await members.add({ login: 'another', role: 'ADMIN', osUser: null });
  await members.change(member.id, { disabled: true });
  expect(await bootstrap(test.database, test.config, 'alice')).toMatchObject({
    member: { id: member.id, disabled: true },
    adminKeyFile: null,
  });
  await members.change(member.id, { disabled: false });
  await members.change(member.id, { role: 'ANALYST' });
  expect((await bootstrap(test.database, test.config, 'alice')).adminKeyFile).toBeNull();
});

it('gives the service account of system mode no tmux of its own', async () => {
  await using test = await openTestDatabase('embedded', {
    environment: { MUXWARDEN_MODE: 'system' },
  });
  const { member } = await bootstrap(test.database, test.config, 'muxwarden');
  expect(member).toMatchObject({ login: 'muxwarden', role: 'ADMIN', osUser: null });
  expect((await bootstrap(test.database, test.config, 'muxwarden')).member.id).toBe(member.id);
});

it('makes one member and a key for each state directory when three start at once on one database', async () => {
  await using server = await startPostgresServer();
  const databaseUrl = await server.createDatabase();
  await using parts = new AsyncDisposableStack();
  const starts = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const { path: stateDir } = parts.use(await scratchDirectory());
      const database = parts.use(await openDatabase({ databaseUrl, stateDir }));
      await migrate(database);
      return bootstrap(database, { stateDir, mode: 'local' }, 'alice');
    }),
  );
  expect(new Set(starts.map(({ member }) => member.id)).size).toBe(1);
  const texts = await Promise.all(
    starts.map(({ adminKeyFile }) => readFile(adminKeyFile ?? '', 'utf8')),
  );
  expect(new Set(texts).size).toBe(3);
  const database = parts.use(await openDatabase({ databaseUrl, stateDir: '/nowhere' }));
  expect((await new ApiKeys(database).list()).filter((key) => key.revokedAt === null)).toHaveLength(
    3,
  );
});
