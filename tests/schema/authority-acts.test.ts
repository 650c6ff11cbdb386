import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Member } from '../../src/members/member.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import { schema } from '../../src/schema/index.ts';
import {
  administers,
  administersOrOwn,
  type Caller,
  cells,
  type Matrix,
  named,
  openMatrix,
  type Rule,
  reads,
} from '../support/authority-matrix.ts';
import { connect } from '../support/graphql-over-http.ts';

/** Who may do and follow what, for each field of Mutation and Subscription: role by scope, own and other. */
let matrix: Matrix;
beforeAll(async () => {
  matrix = await openMatrix();
});
afterAll(() => matrix?.[Symbol.asyncDispose]());

const memberId = ({ id }: Member) => encodeId({ type: 'Member', id });
const key = () => ({ idempotencyKey: randomUUID() });
const target = (about: Member) => {
  const { id, generation } = matrix.serverOf(about);
  return { tmuxServerId: id, expectedGeneration: generation };
};
const somebody = () => matrix.service.add(`m-${randomUUID().slice(0, 8)}`, 'DEVELOPER');

/** What is asked about a member, and who may: null: nobody by a key, for it is about whoever calls. */
interface Act {
  readonly rule: Rule | null;
  /** How it ends for whom the rule lets; default: done. */
  readonly end?: string;
  readonly input: (about: Member) => object | Promise<object>;
}
const acts: Readonly<Record<string, Act>> = {
  restartTmuxServer: {
    rule: administersOrOwn('RESTART'),
    input: (about) => ({ ...target(about), ...key() }),
  },
  repairTmuxServer: {
    rule: administersOrOwn('RESTART'),
    input: (about) => ({ ...target(about), ...key(), repair: 'RAISE_DESCRIPTOR_LIMIT' }),
  },
  restartIdleTmuxServers: {
    rule: administersOrOwn('RESTART'),
    input: (about) => ({ ...key(), targets: [target(about)] }),
  },
  restartPane: {
    rule: administersOrOwn('ACT'),
    input: (about) => ({
      ...key(),
      paneId: encodeId({ type: 'TmuxPane', ref: matrix.paneOf(about) }),
    }),
  },
  createApiKey: {
    // It can do no more than its maker, who has to see its owner.
    rule: (access) => reads(access) && administersOrOwn('ADMIN')(access),
    input: (about) => ({ ...key(), memberId: memberId(about), name: 'k', scopes: ['READ'] }),
  },
  revokeApiKey: {
    rule: administersOrOwn('ADMIN'),
    input: async (about) => {
      const made = await matrix.service.keys.create({
        ...{ memberId: about.id, name: 'to be revoked', scopes: ['READ'], memberIds: null },
        ...{ expiresAt: null, madeByAdmin: true },
      });
      await matrix.service.accounts.reload();
      return { apiKeyId: encodeId({ type: 'ApiKey', id: made.apiKey.id }) };
    },
  },
  createMember: {
    rule: administers,
    input: () => ({ ...key(), login: `m-${randomUUID().slice(0, 8)}`, role: 'DEVELOPER' }),
  },
  updateMember: {
    rule: administers,
    input: async () => ({ ...key(), memberId: memberId(await somebody()), role: 'ANALYST' }),
  },
  deleteMember: {
    rule: administers,
    input: async () => ({ ...key(), memberId: memberId(await somebody()) }),
  },
  // Nothing here is installed to make accounts, nor starts a service again: who may hears of that.
  provisionMember: {
    rule: administers,
    end: 'EUNSUPPORTED',
    input: async () => ({ ...key(), memberId: memberId(await somebody()), action: 'CREATE' }),
  },
  restartService: { rule: administers, end: 'EUNSUPPORTED', input: key },
  reauthenticate: {
    rule: null,
    input: (about) => ({
      ...{ action: 'RESTART_TMUX_SERVER', password: 'nobody has one' },
      targets: [target(about)],
    }),
  },
  signIn: { rule: null, input: ({ login }) => ({ login, password: 'nobody has one' }) },
  signOut: { rule: null, input: () => ({}) },
  refreshListing: { rule: reads, input: (about) => ({ memberId: memberId(about) }) },
};

const fieldsOf = (type: 'Mutation' | 'Subscription') => schema.getType(type);
const namesOf = (type: 'Mutation' | 'Subscription') => {
  const of = fieldsOf(type);
  return of !== undefined && 'getFields' in of ? Object.keys(of.getFields()).sort() : [];
};

it('has a rule for every mutation and every subscription', () => {
  expect(Object.keys(acts).sort()).toEqual(namesOf('Mutation'));
  expect(Object.keys(streams).sort()).toEqual(namesOf('Subscription'));
});

const documents: Readonly<Record<string, string>> = {
  signOut: 'mutation { it: signOut }',
  refreshListing: 'mutation($memberId: ID!) { it: refreshListing(memberId: $memberId) { id } }',
};
const documentOf = (name: string) =>
  documents[name] ??
  `mutation($input: ${name[0]?.toUpperCase()}${name.slice(1)}Input!) { it: ${name}(input: $input) {
    __typename ... on UserError { code } } }`;

describe.each(Object.entries(acts))('%s', (name, { rule, input, end: done = 'done' }) => {
  it('is done for whom its rule says; anybody else is refused, and nothing is done', async () => {
    const query = documentOf(name);
    for (const { caller, about, access } of cells(matrix)) {
      const given = await input(about);
      const ran = matrix.service.fleet.acts.ran.length;
      const members = matrix.service.accounts.members().length;
      const variables = name in documents ? given : { input: given };
      const { data, errors } = await matrix.service.post(query, variables, { key: caller.key });
      const end = endOf(data?.it, errors);
      const may = rule?.(access) ?? false;
      const wanted = may ? [done] : refusals;
      expect(wanted, `${named(access)}: ${end}`).toContain(end);
      if (may) continue;
      expect(matrix.service.fleet.acts.ran).toHaveLength(ran);
      expect(matrix.service.accounts.members()).toHaveLength(members);
    }
  });
});

const refusals = ['FORBIDDEN', 'ENOTFOUND', 'EREAUTH', 'nothing'];

function endOf(it: unknown, errors: readonly { extensions: { code: string } }[] = []): string {
  const [error] = errors;
  if (error !== undefined) return error.extensions.code;
  if (it === null || it === false) return 'nothing';
  if (typeof it === 'object' && it !== undefined && 'code' in it) return String(it.code);
  return 'done';
}

interface Stream {
  readonly rule: Rule;
  /** Whether what comes first, up to its own end, is about that member. */
  readonly shows: (caller: Caller, about: Member) => Promise<boolean>;
}
const follow = <Event>({ key: by }: Caller, query: string, variables = {}) =>
  connect(matrix.service.url, by).subscribe<{ readonly it: Event }>(query, variables);
const screenOf = (field: string, type: string): Stream => ({
  rule: administersOrOwn('STREAM'),
  async shows(caller, about) {
    const paneId = encodeId({ type: 'TmuxPane', ref: matrix.paneOf(about) });
    const query = `subscription($paneId: ID!) { it: ${field}(paneId: $paneId) { __typename } }`;
    for await (const { it: event } of follow<{ __typename: string }>(caller, query, { paneId })) {
      if (event.__typename === type) return true;
      expect(event.__typename).toBe('NotFoundError');
    }
    return false;
  },
});
const streams: Readonly<Record<string, Stream>> = {
  paneOutput: screenOf('paneOutput', 'PaneSnapshot'),
  paneScreen: screenOf('paneScreen', 'PaneScreen'),
  listingChanged: {
    rule: reads,
    async shows(caller, about) {
      const query = `subscription { it: listingChanged {
        __typename ... on ListingSnapshot { member { id } } } }`;
      type Event = { readonly __typename: string; readonly member?: { readonly id: string } };
      let seen = false;
      for await (const { it: event } of follow<Event>(caller, query)) {
        if (event.__typename === 'ListingSynced') return seen;
        seen ||= event.member?.id === memberId(about);
      }
      return seen;
    },
  },
  auditEventAdded: {
    rule: administersOrOwn('READ'),
    async shows(caller, about) {
      const query = `subscription($after: String) { it: auditEventAdded(after: $after) {
        auditEvent { id } } }`;
      type Event = { readonly auditEvent: { readonly id: string } };
      const idOf = ({ id }: Member) =>
        encodeId({ type: 'AuditEvent', id: matrix.rows.get(id)?.id ?? '' });
      let seen = false;
      const after = { after: matrix.beforeRows };
      // Its own row comes after that of the other member, and is seen by whoever sees any.
      for await (const { it: event } of follow<Event>(caller, query, after)) {
        seen ||= event.auditEvent.id === idOf(about);
        if (event.auditEvent.id === idOf(caller.member)) return seen;
      }
      return seen;
    },
  },
};

describe.each(Object.entries(streams))('%s', (_, { rule, shows }) => {
  it('shows what its rule says', async () => {
    for (const { caller, about, access } of cells(matrix)) {
      const seen = await shows(caller, about).catch((error: Error) => {
        expect(error.message).toMatch(/"code":"FORBIDDEN"/);
        return false;
      });
      expect([named(access), seen]).toEqual([named(access), rule(access)]);
    }
  });
});
