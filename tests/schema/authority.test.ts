import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Scope, scopes } from '../../src/auth/viewer.ts';
import { type Role, roles } from '../../src/members/member.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import { schema } from '../../src/schema/index.ts';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';

/** Who sees what of whom, for each field of Query: role by scope, own and other. */
type Rule = (role: Role, scope: Scope, own: boolean) => boolean;
const reads: Rule = (role, scope, own) => scope === 'READ' && (own || role !== 'DEVELOPER');
const administers: Rule = (role, scope) => role === 'ADMIN' && scope === 'ADMIN';

/** How a field is asked about a member, and the rule of what comes of it. */
const fields: Readonly<
  Record<string, readonly [query: (id: string, login: string) => string, rule: Rule]>
> = {
  node: [(id) => `{ node(id: "${id}") { id } }`, reads],
  nodes: [(id) => `{ nodes(ids: ["${id}"]) { id } }`, reads],
  viewer: [() => '{ viewer { member { id } } }', (_role, _scope, own) => own],
  members: [() => '{ members { nodes { id } } }', reads],
  member: [(_, login) => `{ member(login: "${login}") { id } }`, reads],
  tmuxServers: [() => '{ tmuxServers { nodes { member { id } } } }', reads],
  panes: [() => '{ panes { nodes { server { member { id } } } } }', reads],
  auditEvents: [() => '{ auditEvents { nodes { member { id } } } }', () => false],
  apiKeys: [() => '{ apiKeys { member { id } } }', (_role, scope, own) => scope === 'READ' && own],
  installation: [() => '{ installation { mode } }', administers],
};

let service: Service;
const id = (login: string) =>
  encodeId({ type: 'Member', id: service.accounts.memberByLogin(login)?.id ?? '' });
beforeAll(async () => {
  service = await startService();
  for (const [number, login] of [...roles, 'OTHER'].entries()) {
    const role = roles.find((each) => each === login) ?? 'DEVELOPER';
    const member = service.accounts.add(login.toLowerCase(), role);
    service.fleet.set(listing(member.id, [server(member.id, number + 1)]));
    const moment = new Date(0);
    const key = { id: member.id, publicId: '0', name: 'k', memberId: member.id, memberIds: null };
    service.accounts.keys = [
      ...service.accounts.keys,
      {
        ...key,
        scopes: ['READ'],
        createdAt: moment,
        expiresAt: null,
        lastUsedAt: null,
        endedAt: null,
        revokedAt: null,
      },
    ];
    const viewer = service.accounts.viewer(login.toLowerCase());
    for (const scope of scopes)
      service.accounts.let(`${login}-${scope}`, {
        ...{ ...viewer, scopes: new Set([scope]), credentialId: `${login}-${scope}` },
      });
  }
});
afterAll(() => service?.[Symbol.asyncDispose]());

it('has a rule for every field of Query', () => {
  expect(Object.keys(fields).sort()).toEqual(
    Object.keys(schema.getQueryType()?.getFields() ?? {}).sort(),
  );
});

describe.each(Object.entries(fields))('%s', (name, [query, rule]) => {
  it.each(roles)('shows an %s what its rule says, for each scope', async (role) => {
    for (const scope of scopes)
      for (const login of [role.toLowerCase(), 'other']) {
        const wanted = id(login);
        const answer = await service.query(`${role}-${scope}`, query(wanted, login));
        const seen =
          name === 'installation'
            ? JSON.stringify(answer.data).includes('mode')
            : JSON.stringify(answer.data ?? null).includes(wanted);
        const own = login !== 'other';
        expect([scope, own, seen]).toEqual([scope, own, rule(role, scope, own)]);
      }
  });
});
