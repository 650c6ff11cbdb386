import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Member } from '../../src/members/member.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import {
  type AccountsService,
  browser,
  cookieOf,
  startAccountsServiceOn,
} from '../support/accounts-service.ts';
import { generation, pathHex, ScriptedFleet } from '../support/acting.ts';

/** Everything about accounts is done once, with canaries; then they are looked for everywhere. */
const password = 'canary-the-right-password';
const wrong = 'canary-a-wrong-password';
const initial = 'canary-an-initial-password';
const typed = 'canary-typed-as-a-login';

let service: AccountsService<ScriptedFleet>;
let root: Member;
beforeAll(async () => {
  service = await startAccountsServiceOn(new ScriptedFleet());
  root = await service.add('root-1', 'ADMIN', password);
});
afterAll(() => service?.[Symbol.asyncDispose]());

it('leaves no password, key, grant or session in tables, WAL, journal, log or a later answer', async () => {
  const headers = browser(service.url);
  const enter = (login: string, given: string) =>
    service.post(
      'mutation($input: SignInInput!) { signIn(input: $input) { __typename } }',
      { input: { login, password: given } },
      { headers },
    );
  await enter(root.login, wrong);
  await enter(typed, wrong);
  const cookie = cookieOf(await enter(root.login, password)) ?? '';
  const session = cookie.split('=')[1] ?? '';
  const by = { cookie };
  const memberId = encodeId({ type: 'Member', id: root.id });
  const tmuxServerId = encodeId({ type: 'TmuxServer', ref: { memberId: root.id, pathHex } });
  const target = { tmuxServerId, expectedGeneration: generation };
  const grantFor = async (input: object, given = password) =>
    (
      await service.ask<{ grant?: string }>(
        `mutation($input: ReauthenticateInput!) {
          reauthenticate(input: $input) { ... on ReauthenticatePayload { grant } } }`,
        { input: { password: given, ...input } },
        by,
      )
    ).grant ?? '';
  await grantFor({ action: 'CREATE_MEMBER' }, wrong);
  const spent = await grantFor({ action: 'RESTART_TMUX_SERVER', targets: [target] });
  const unspent = await grantFor({ action: 'DELETE_MEMBER', memberId });
  const restart = (proof: object) =>
    service.ask(
      'mutation($input: RestartTmuxServerInput!) { restartTmuxServer(input: $input) { __typename } }',
      { input: { ...target, idempotencyKey: randomUUID(), ...proof } },
      by,
    );
  await restart({ grant: spent });
  await restart({ grant: spent });
  await restart({ password });
  await restart({ password: wrong });
  const make = (proof: object) =>
    service.ask<{ key?: string }>(
      `mutation($input: CreateApiKeyInput!) {
        createApiKey(input: $input) { ... on CreateApiKeyPayload { key apiKey { id name prefix } } } }`,
      {
        input: { idempotencyKey: 'one', memberId, name: 'a key', scopes: ['READ'], ...proof },
      },
      by,
    );
  const { key = '' } = await make({ password });
  const secret = key.slice('mw_0123456789abcdef_'.length);
  const told = service.answers.length;
  await make({ password });
  const create = (login: string) =>
    service.ask(
      'mutation($input: CreateMemberInput!) { createMember(input: $input) { __typename } }',
      {
        input: {
          ...{ idempotencyKey: 'two', login, role: 'DEVELOPER' },
          ...{ initialPassword: initial, password },
        },
      },
      by,
    );
  await create('carol');
  await create('carol');
  await service
    .ask(
      'mutation($input: CreateMemberInput!) { createMember(input: $input) { __typename } }',
      { input: { idempotencyKey: 'three', login: typed.toUpperCase(), role: 'ADMIN', password } },
      by,
    )
    .catch(() => undefined);
  await service.ask(
    '{ viewer { via } apiKeys { id name prefix } auditEvents(first: 100) { nodes { message targetLabel statedReason actorAgent } } }',
    {},
    by,
  );
  await service.ask('mutation { signOut }', {}, by);

  const secrets = { password, wrong, initial, typed, session, spent, unspent, secret };
  for (const [name, value] of Object.entries(secrets))
    expect([name, value.length > 15]).toEqual([name, true]);
  const { database, config } = service.database;
  const tables = await database.pool.query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'public'`,
  );
  const places = new Map<string, string>();
  for (const { name } of tables.rows) {
    const { rows } = await database.pool.query(
      `select coalesce(string_agg(t::text, ' '), '') as all from "${name}" t`,
    );
    places.set(`table ${name}`, rows[0].all);
  }
  places.set('journal', await readFile(join(config.stateDir, 'audit/journal.jsonl'), 'utf8'));
  const wal = join(config.stateDir, 'postgres/data/pg_wal');
  for (const file of await readdir(wal, { withFileTypes: true }))
    if (file.isFile())
      places.set(`WAL ${file.name}`, await readFile(join(wal, file.name), 'latin1'));
  places.set('log', service.log.join('\n'));
  places.set('later answers', service.answers.slice(told).join('\n'));
  expect([...places.keys()].filter((place) => place.startsWith('WAL')).length).toBeGreaterThan(0);
  expect(places.get('journal')).toContain('CREATE_API_KEY');
  const found: string[] = [];
  for (const [place, text] of places)
    for (const [name, value] of Object.entries(secrets))
      if (text.includes(value) || text.includes(Buffer.from(value).toString('base64')))
        found.push(`${name} in ${place}`);
  expect(found).toEqual([]);
});
