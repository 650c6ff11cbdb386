import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAccounts } from '../../src/auth/account-store.ts';
import { ownUser } from '../../src/auth/bootstrap.ts';
import { checkPassword } from '../../src/auth/passwords.ts';
import type { Io } from '../../src/cli/command.ts';
import type { Check } from '../../src/cli/doctor/check.ts';
import { machineChecks } from '../../src/cli/doctor/machine.ts';
import { run } from '../../src/cli/run.ts';
import { readConfig } from '../../src/config.ts';
import { openDatabase } from '../../src/database/open.ts';
import { runningService, writeServiceRecord } from '../../src/server/service-record.ts';
import { databaseKinds, openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { scratchDirectory } from '../support/scratch.ts';

interface Ran {
  readonly status: number;
  readonly out: string;
  readonly notes: string;
}

async function muxwarden(
  environment: Readonly<Record<string, string>>,
  words: readonly string[],
  secret = '',
): Promise<Ran> {
  const out: string[] = [];
  const notes: string[] = [];
  const io: Io = {
    environment,
    out: (text) => out.push(text),
    note: (text) => notes.push(text),
    readSecret: async () => secret,
  };
  const status = await run(words, io);
  return { status, out: out.join('\n'), notes: notes.join('\n') };
}

describe('the words', () => {
  it.each([
    [[], 2, /muxwarden COMMAND/],
    [['--help'], 0, /doctor +check what the service needs/],
    [['members', '--help'], 0, /passwd +set a member's password/],
    [['keys', 'create', '--help'], 0, /--scopes LIST/],
    [['--version'], 0, /^\d+\.\d+\.\d+$/],
  ] as const)('of %j are answered by a help', async (words, status, text) => {
    const ran = await muxwarden({}, words);
    expect(ran.status).toBe(status);
    expect(ran.out).toMatch(text);
    expect(ran.notes).toBe('');
  });

  it.each([
    [['bogus'], /no 'muxwarden bogus'. There are: serve, login, .*schema/, 'muxwarden --help'],
    [['members', 'bogus'], /There are: add, list, passwd/, 'muxwarden members --help'],
    [['members'], /Say which: add/, 'muxwarden members --help'],
    [['members', 'add'], /LOGIN is missing/, 'muxwarden members add --help'],
    [['members', 'add', 'a', 'b'], /'b' is one word too many/, 'muxwarden members add --help'],
    [['members', 'add', 'a', '--role', 'KING'], /ADMIN, ANALYST, DEVELOPER/, 'add --help'],
    [['keys', 'create', 'k', '--scopes', 'read,fly'], /READ, STREAM.*'fly'/, 'create --help'],
    [['keys', 'create', 'k', '--expires', 'soon'], /30d/, 'create --help'],
    [['keys', 'create', 'k', '--expires', '2001-01-01'], /in the past/, 'create --help'],
    [['keys', 'create', 'two\nlines'], /NAME has 1 to 100/, 'muxwarden keys create --help'],
    [['schema', 'foo'], /'foo' is one word too many/, 'muxwarden schema --help'],
    [['audit', 'verify', 'a', 'b'], /'b' is one word/, 'muxwarden audit verify --help'],
    [['serve', '--port', '1'], /Unknown option '--port'/, 'muxwarden serve --help'],
    [['\u001b[2J'], /no 'muxwarden \\x1b\[2J'/, 'muxwarden --help'],
  ] as const)('of %j that make no sense are told what would', async (words, said, help) => {
    const ran = await muxwarden({}, words);
    expect(ran.status).toBe(2);
    expect(ran.notes).toMatch(said);
    expect(ran.notes).toMatch(new RegExp(`(^|\\s)${help}$`));
    expect(ran.out).toBe('');
  });

  it('are no use with a setting that can not be used', async () => {
    const ran = await muxwarden({ MUXWARDEN_PORT: 'x' }, ['members', 'list']);
    expect(ran).toMatchObject({ status: 1, out: '' });
    expect(ran.notes).toMatch(/MUXWARDEN_PORT/);
  });
});

describe.each(databaseKinds)('commands beside a running service (%s)', (kind) => {
  let test: TestDatabase;
  let environment: Record<string, string>;
  const here = (words: readonly string[], secret?: string) => muxwarden(environment, words, secret);
  beforeAll(async () => {
    test = await openTestDatabase(kind);
    environment = {
      MUXWARDEN_STATE_DIR: test.config.stateDir,
      ...(test.config.databaseUrl === undefined ? {} : { DATABASE_URL: test.config.databaseUrl }),
    };
  }, 120_000);
  afterAll(() => test?.[Symbol.asyncDispose]());

  it('add, show, change and keep out members', async () => {
    expect(
      await here(['members', 'add', 'bob', '--role', 'analyst', '--os-user', ownUser()]),
    ).toEqual({
      status: 0,
      out: `Added ANALYST bob, Linux user ${ownUser()}.`,
      notes: '',
    });
    const foreign = await here(['members', 'add', 'carol', '--os-user', 'no-such-user']);
    expect(foreign.notes).toMatch(/MUXWARDEN_MODE=system/);
    const twice = await here(['members', 'add', 'bob']);
    expect(twice).toMatchObject({
      status: 1,
      notes: "muxwarden: There is a member 'bob' already.",
    });
    expect((await here(['members', 'add', 'Bob'])).notes).toMatch(/1 to 32/);
    expect((await here(['members', 'disable', 'bob'])).out).toBe('bob is disabled.');
    const listed = await here(['members', 'list']);
    expect(listed.out).toMatch(/^LOGIN +ROLE +LINUX USER +STATE +SINCE\nbob +ANALYST .* disabled /);
    expect((await here(['members', 'enable', 'bob'])).status).toBe(0);
    expect((await here(['members', 'role', 'bob', 'DEVELOPER'])).out).toBe('bob is DEVELOPER now.');
    const [row] = (await here(['members', 'list', '--json'])).out.split('\n');
    expect(JSON.parse(row ?? '')).toMatchObject({
      login: 'bob',
      role: 'DEVELOPER',
      disabled: false,
    });
    const nobody = await here(['members', 'disable', 'nobody']);
    expect(nobody).toMatchObject({ status: 1 });
    expect(nobody.notes).toMatch(/no member 'nobody'/);
  });

  it('set and remove a password, and refuse one that is too short', async () => {
    await using accounts = await openAccounts(test.database);
    const hash = async () => {
      await accounts.reload();
      return accounts.passwordHash(accounts.memberByLogin('bob')?.id ?? '') ?? null;
    };
    const short = await here(['members', 'passwd', 'bob'], 'short');
    expect(short).toMatchObject({ status: 1 });
    expect(short.notes).toMatch(/at least 8 characters/);
    expect(await here(['members', 'passwd', 'bob'], 'correct horse')).toMatchObject({ status: 0 });
    expect((await checkPassword('correct horse', await hash())).right).toBe(true);
    await here(['members', 'passwd', 'bob', '--remove']);
    expect(await hash()).toBeNull();
  });

  it('make a key that works at once, show it without its secret, and end it', async () => {
    await using accounts = await openAccounts(test.database);
    const made = await here([
      'keys',
      'create',
      'dash',
      '--scopes',
      'read,stream',
      '--members',
      'bob',
      '--expires',
      '30d',
    ]);
    expect(made.status).toBe(0);
    expect(made.out).toMatch(/^mw_[0-9a-f]{16}_[\w-]{43}$/);
    const viewer = await accounts.authenticateKey(made.out);
    expect([...(viewer?.scopes ?? [])].sort()).toEqual(['READ', 'STREAM']);
    expect(viewer?.memberIds?.size).toBe(1);
    expect(viewer?.madeByAdmin).toBe(true);
    const [, id = ''] = made.out.split('_');
    const secret = made.out.slice('mw_0123456789abcdef_'.length);
    const listed = await here(['keys', 'list']);
    expect(listed.out).toContain(id);
    expect(listed.out).not.toContain(secret);
    expect((await here(['keys', 'list', '--json'])).out).not.toContain(secret);
    expect((await here(['keys', 'revoke', id])).out).toBe(`Key ${id} is revoked.`);
    expect((await here(['keys', 'revoke', made.out])).out).toBe(`Key ${id} was revoked before.`);
    expect((await here(['keys', 'revoke', 'nonsense'])).status).toBe(1);
    await accounts.reload();
    expect(await accounts.authenticateKey(made.out)).toBeUndefined();
  });

  it('replace a key, which goes on for a bounded while', async () => {
    await using accounts = await openAccounts(test.database);
    const words = ['keys', 'create', 'turn', '--owner', 'bob', '--expires', '30d'];
    const old = await here(words);
    const made = await here(['keys', 'rotate', old.out, '--overlap', '2d']);
    expect(made.status).toBe(0);
    await accounts.reload();
    const [before, after] = ['turn', 'turn'].map((name, index) => {
      const found = accounts.apiKeys().filter((key) => key.name === name);
      const publicId = [old.out, made.out][index]?.split('_')[1];
      return found.find((key) => key.publicId === publicId);
    });
    const days = (date: Date | null | undefined) =>
      Math.round(((date?.getTime() ?? 0) - Date.now()) / 86_400_000);
    expect([days(before?.expiresAt), days(after?.expiresAt)]).toEqual([2, 30]);
    expect(after).toMatchObject({ memberId: before?.memberId, scopes: before?.scopes });
    expect(await accounts.authenticateKey(old.out)).toBeDefined();
    expect(await accounts.authenticateKey(made.out)).toBeDefined();
    // It ends when it was to end, and what replaces it lasts as long as it did: both are said.
    const again = await here(['keys', 'rotate', old.out, '--overlap', '3d']);
    const end = before?.expiresAt?.toISOString().slice(0, 16).replace('T', ' ');
    expect(again.notes).toContain(`replaces ${before?.publicId}, which ends ${end}Z.`);
    expect(again.notes).toMatch(/^Key \w+, which expires 20\S+ \S+Z, replaces/);
    await here(['keys', 'rotate', made.out, '--overlap', '0h']);
    await accounts.reload();
    expect(await accounts.authenticateKey(made.out)).toBeUndefined();
    expect((await here(['keys', 'rotate', made.out])).notes).toMatch(/has ended/);
    expect((await here(['keys', 'rotate', old.out, '--overlap', '8d'])).status).toBe(2);
  });

  it('delete a member, but not the last ADMIN', async () => {
    await here(['members', 'add', 'dora', '--role', 'ADMIN']);
    const kept = await here(['members', 'delete', 'dora']);
    expect(kept).toMatchObject({ status: 1, notes: expect.stringMatching(/the last ADMIN/) });
    expect((await here(['members', 'role', 'dora', 'DEVELOPER'])).status).toBe(1);
    expect((await here(['members', 'disable', 'dora'])).status).toBe(1);
    await here(['members', 'add', 'emil', '--role', 'ADMIN']);
    expect((await here(['members', 'delete', 'dora'])).out).toBe('dora is deleted.');
    expect((await here(['members', 'list'])).out).not.toContain('dora');
  });

  it('are on record in the chain of the commands, with who ran them and no secret', async () => {
    const { rows } = await test.database.pool.query<Record<string, string>>(
      `select action, phase, outcome, actor_id, actor_agent, target_label, audit_events::text as all
         from audit_events order by sequence`,
    );
    const said = rows.map(
      ({ action, phase, outcome, target_label }) => `${action} ${outcome ?? phase} ${target_label}`,
    );
    for (const row of [
      'CREATE_MEMBER INTENT bob',
      'CREATE_MEMBER SUCCEEDED bob',
      'CREATE_MEMBER FAILED bob',
      'UPDATE_MEMBER SUCCEEDED bob',
      'CREATE_API_KEY SUCCEEDED bob: dash',
      'REVOKE_API_KEY SUCCEEDED dash',
      'CREATE_API_KEY SUCCEEDED turn',
      'DELETE_MEMBER FAILED dora',
      'DELETE_MEMBER SUCCEEDED dora',
    ])
      expect(said).toContain(row);
    const intents = rows.filter(({ phase }) => phase === 'INTENT');
    expect(rows.length).toBe(2 * intents.length);
    const agent = rows.find(({ action }) => action === 'CREATE_API_KEY')?.actor_agent;
    expect(agent).toBe(`muxwarden keys create, by ${ownUser()} (uid ${process.geteuid?.()})`);
    expect(rows.map((row) => row.all).join('\n')).not.toMatch(/correct horse|mw_[0-9a-f]{16}_/);
  });

  it('print a link to the running service, and say when none runs', async () => {
    const none = await here(['login']);
    expect(none).toMatchObject({ status: 1, out: '' });
    expect(none.notes).toMatch(/No service runs .* muxwarden serve/);
    await using _record = await writeServiceRecord(test.config.stateDir, 'http://127.0.0.1:4321');
    expect(await runningService(test.config.stateDir)).toMatchObject({ pid: process.pid });
    const link = await here(['login', 'bob']);
    expect(link.out).toMatch(/^http:\/\/127\.0\.0\.1:4321\/sign-in#[\w-]{43}$/);
    await here(['members', 'disable', 'bob']);
    expect((await here(['login', 'bob'])).notes).toMatch(/members enable bob/);
  });

  it('find nothing to migrate', async () => {
    expect(await here(['migrate'])).toMatchObject({
      status: 0,
      out: 'The database is up to date.',
    });
  });
});

it('does its work without a service too, starting and stopping the database for it', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = join(scratch.path, 'state');
  const environment = { MUXWARDEN_STATE_DIR: stateDir };
  // Two at once: one waits for the other.
  const both = await Promise.all(
    ['alice', 'bob'].map((login) => muxwarden(environment, ['members', 'add', login])),
  );
  expect(both.map(({ status }) => status)).toEqual([0, 0]);
  const listed = await muxwarden(environment, ['members', 'list', '--json']);
  expect(listed.out.split('\n')).toHaveLength(2);
  await expect(openDatabase({ databaseUrl: undefined, stateDir })).rejects.toThrow(/not running/);
});

it('is a command that a shell can run: one sentence on stderr, no stack, status 1', async () => {
  const cli = new URL('../../src/cli.ts', import.meta.url).pathname;
  const ran = await execa(process.execPath, [cli, 'members', 'list'], {
    env: { DATABASE_URL: 'postgres://u:very-secret@127.0.0.1:1/d' },
    reject: false,
  });
  expect(ran.exitCode).toBe(1);
  expect(ran.stdout).toBe('');
  expect(ran.stderr.split('\n')).toHaveLength(1);
  expect(ran.stderr).toMatch(/^muxwarden: PostgreSQL at 127\.0\.0\.1:1 accepts no connections/);
  expect(ran.stderr).not.toContain('very-secret');
});

it('checks the machine, and fails for what is not right with a remedy', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = join(scratch.path, 'state');
  await mkdir(stateDir, { mode: 0o755 });
  const ran = await muxwarden(
    {
      MUXWARDEN_STATE_DIR: stateDir,
      MUXWARDEN_TMUX_BIN: '/nowhere/tmux',
      MUXWARDEN_HELPER: '/nowhere/helper',
      MUXWARDEN_PROT: '1',
    },
    ['doctor', '--json'],
  );
  expect(ran.status).toBe(1);
  const checks = ran.out.split('\n').map((line) => JSON.parse(line));
  const problems = checks.filter(({ ok }) => !ok).map(({ name }) => name);
  expect(problems).toEqual(
    expect.arrayContaining(['settings', 'tmux', 'state directory', 'helper /nowhere/helper']),
  );
  expect(problems).not.toContain('perl');
  expect(problems).not.toContain('Node.js');
  expect(checks.every(({ ok, remedy }) => ok === (remedy === null))).toBe(true);
  expect(checks.find(({ name }) => name === 'tmux').remedy).toMatch(/install/i);
  const text = await muxwarden({ MUXWARDEN_STATE_DIR: join(scratch.path, 'new') }, ['doctor']);
  expect(text.out).toMatch(/^ok +database: the embedded PostgreSQL runs here/m);
  await expect(readFile(join(scratch.path, 'new/lock'))).rejects.toThrow(/ENOENT/);
});

it.each([
  [{}, undefined],
  [{ MUXWARDEN_PUBLIC_URL: 'http://mux.example.org' }, undefined],
  [{ MUXWARDEN_PUBLIC_URL: 'https://mux.example.org' }, /MUXWARDEN_TRUSTED_PROXIES/],
  [
    { MUXWARDEN_PUBLIC_URL: 'https://mux.example.org', MUXWARDEN_TRUSTED_PROXIES: '10.0.0.0/8' },
    null,
  ],
  [{ MUXWARDEN_TRUSTED_PROXIES: 'proxy.example.org' }, /^Correct MUXWARDEN_TRUSTED_PROXIES/],
] as const)('tells who may stand in front: %j', async (environment, remedy) => {
  const checks: Check[] = [];
  for await (const check of machineChecks(readConfig(environment), environment))
    if (check.name === 'trusted proxies') checks.push(check);
  expect(checks.map((check) => check.remedy)).toEqual(
    remedy === undefined ? [] : [remedy && expect.stringMatching(remedy)],
  );
});
