import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { getIntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/config.ts';
import { openDocuments } from '../../src/server/documents.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { type Answer, type Service, startService } from '../support/synthetic-service.ts';
import { bearer, cookie, transports } from '../support/transports.ts';

/** What may be sent at all: introspection in production, trusted documents of browser sessions. */

const codes = ({ errors }: Answer<unknown>) =>
  errors?.map(({ extensions }) => extensions.code) ?? [];
const overEach = Object.entries(transports);

async function withPeople(service: Service): Promise<Service> {
  service.accounts.add('ann', 'ADMIN');
  service.accounts.add('ben', 'ANALYST');
  service.accounts.add('cat', 'DEVELOPER');
  service.accounts.beginSession('annas-cookie', 'ann');
  service.accounts.beginSession('bens-cookie', 'ben');
  return service;
}

describe('asking for the schema in production', () => {
  let service: Service;
  beforeAll(async () => {
    service = await withPeople(await startService({ production: true }));
  });
  afterAll(() => service[Symbol.asyncDispose]());

  const asking = [
    getIntrospectionQuery(),
    '{ __type(name: "Query") { name } }',
    '{ x: __schema { queryType { name } } }',
    'query A { viewer { role } } query B { __schema { description } }',
    '{ ...F } fragment F on Query { __schema { queryType { name } } }',
    '{ __schema { nosuchfield } }',
  ];

  it.each(overEach)('is for an ADMIN alone over %s', async (_, ask) => {
    for (const query of asking) {
      for (const who of ['ben', 'cat']) {
        const answer = await ask(service, bearer(who), { query });
        expect([who, query, codes(answer)]).toEqual([who, query, ['FORBIDDEN']]);
        expect(JSON.stringify(answer)).not.toContain('nosuchfield');
      }
    }
    expect(codes(await ask(service, bearer('ann'), { query: asking[0] ?? '' }))).toEqual([]);
  });

  it.each(overEach)('is not what mentions it, or asks for a type name, over %s', async (_, ask) => {
    for (const query of [
      '{ __typename viewer { __typename role } }',
      '# __schema\n{ viewer { role } }',
      '{ members(filter: {search: "__type"}) { nodes { id } } }',
    ])
      expect(codes(await ask(service, bearer('cat'), { query }))).toEqual([]);
  });

  it('is for everybody elsewhere', async () => {
    await using open = await withPeople(await startService());
    const { data } = await open.query<{ __schema: object }>('cat', getIntrospectionQuery());
    expect(data?.__schema).toBeDefined();
  });
});

describe('trusted documents', () => {
  const viewer = 'query Viewer { viewer { role } }';
  const follow = 'subscription Follow { listingChanged { __typename } }';
  const id = createHash('sha256').update(viewer).digest('hex');
  let service: Service;
  let scratch: Awaited<ReturnType<typeof scratchDirectory>>;
  beforeAll(async () => {
    scratch = await scratchDirectory();
    const trustedDocuments = join(scratch.path, 'documents.json');
    await writeFile(trustedDocuments, JSON.stringify({ [id]: viewer, follow }));
    service = await withPeople(await startService({ trustedDocuments, production: true }));
  });
  afterAll(async () => {
    await service[Symbol.asyncDispose]();
    await scratch[Symbol.asyncDispose]();
  });
  const session = () => cookie(service, 'annas-cookie');

  it.each(overEach)('are all that a browser session sends over %s', async (_, ask) => {
    expect(codes(await ask(service, session(), { query: viewer }))).toEqual([]);
    const spread = '# the same\nquery Viewer {\n  viewer { role, }\n}\n';
    expect(codes(await ask(service, session(), { query: spread }))).toEqual([]);
    for (const query of [
      '{ viewer { role } }',
      viewer.replace('role', 'via'),
      viewer.replace('role', 'nosuchfield'),
      `${viewer} query More { viewer { via } }`,
      '{ unfinished',
      '"',
    ]) {
      const answer = await ask(service, session(), { query });
      expect([query, codes(answer)]).toEqual([query, ['FORBIDDEN']]);
      expect(answer.errors?.[0]?.message).toMatch(
        /only the documents that this service trusts.*key/,
      );
      expect(answer.errors?.[0]?.extensions.requestId).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it.each(overEach)('leave keys alone over %s', async (_, ask) => {
    expect(codes(await ask(service, bearer('cat'), { query: '{ viewer { via } }' }))).toEqual([]);
    const both = { ...session(), ...bearer('cat') };
    expect(codes(await ask(service, both, { query: '{ viewer { via } }' }))).toEqual([]);
  });

  it.each(overEach)('let GraphiQL open with the schema, for an ADMIN, over %s', async (_, ask) => {
    const query = getIntrospectionQuery();
    expect(codes(await ask(service, session(), { query }))).toEqual([]);
    const ben = cookie(service, 'bens-cookie');
    expect(codes(await ask(service, ben, { query }))).toEqual(['FORBIDDEN']);
    for (const more of [
      '{ __schema { description } viewer { role } }',
      `${query} { viewer { via } }`,
    ])
      expect(codes(await ask(service, session(), { query: more }))).toEqual(['FORBIDDEN']);
  });

  it('are sent by their id as well', async () => {
    const post = async (body: object) => {
      const response = await service.post(body, { headers: session() });
      return [response.status, (await response.json()) as Answer<unknown>] as const;
    };
    for (const documentId of [id, `sha256:${id}`])
      expect(await post({ documentId })).toEqual([200, { data: { viewer: { role: 'ADMIN' } } }]);
    const [status, unknown] = await post({ documentId: 'nobody' });
    expect([status, codes(unknown)]).toEqual([400, ['BAD_USER_INPUT']]);
    const [forbidden] = await post({ documentId: id, query: '{ viewer { via } }' });
    expect(forbidden).toBe(403);
  });

  it('stop the start when the file can not be used', async () => {
    const path = join(scratch.path, 'bad.json');
    const open = (trustedDocuments: string) =>
      openDocuments({ trustedDocuments, production: false, maxTokens: 1_000 });
    await expect(open('/nowhere')).rejects.toThrow(ConfigError);
    for (const [content, said] of [
      ['{', /holds something else/],
      ['["x"]', /holds something else/],
      ['{"a": 1}', /holds something else/],
      ['{"a": "\\""}', /no GraphQL document under "a"/],
    ] as const) {
      await writeFile(path, content);
      await expect(open(path)).rejects.toThrow(said);
      await expect(open(path)).rejects.toThrow(/MUXWARDEN_TRUSTED_DOCUMENTS.*bad\.json/);
    }
  });
});

describe('an answer that is not accepted', () => {
  it('is 406 with a body that says what is', async () => {
    await using service = await withPeople(await startService());
    for (const accept of ['text/html', 'application/xml', 'image/*;q=0.1']) {
      const body = { query: '{ viewer { role } }' };
      const response = await service.post(body, { as: 'ann', headers: { accept } });
      expect(response.status).toBe(406);
      expect(response.headers.get('content-type')).toMatch(/^application\/json/);
      const answer = (await response.json()) as Answer<unknown>;
      expect(codes(answer)).toEqual(['BAD_USER_INPUT']);
      expect(answer.errors?.[0]?.message).toContain(accept);
    }
  });

  it('says of a subscription what does take it', async () => {
    await using service = await withPeople(await startService());
    const body = { query: 'subscription { listingChanged { __typename } }' };
    const headers = { accept: 'application/json' };
    const response = await service.post(body, { as: 'ann', headers });
    expect(response.status).toBe(406);
    const answer = (await response.json()) as Answer<unknown>;
    expect(answer.errors?.[0]?.message).toMatch(/accept text\/event-stream/);
  });
});

describe('a misspelt name', () => {
  const misspelt = [
    '{ viewr { role } }',
    '{ viewer { rol } }',
    '{ members(frst: 1) { nodes { id } } }',
    '{ members(filter: {rle: ADMIN}) { nodes { id } } }',
    '{ members(filter: {role: ADMN}) { nodes { id } } }',
    '{ members(filter: {listing: [FRSH]}) { nodes { id } } }',
    '{ node(id: "x") { ... on Membr { login } } }',
    '{ ... on Quer { viewer { role } } }',
    '{ viewer { ...Frag } } fragment Fragm on Viewer { role }',
    'query($x: MemberFiltr) { members(filter: $x) { nodes { id } } }',
    '{ viewer { role @skp(if: true) } }',
    '{ viewer { role @skip(iff: true) } }',
    'mutation { refreshListng(memberId: "x") { id } }',
    'subscription { listingChangd { __typename } }',
    '{ __type(nme: "Query") { name } }',
    '{ __schema { typs { name } } }',
    '{ viewer { .. .F } }',
  ];
  const variables = [
    { filter: { rle: 'ADMIN' } },
    { filter: { role: 'ADMN' } },
    { filter: { listing: ['FRSH'] } },
  ];

  let service: Service;
  beforeAll(async () => {
    service = await withPeople(await startService());
  });
  afterAll(() => service[Symbol.asyncDispose]());

  it.each(overEach)('gets no suggestion over %s', async (_, ask) => {
    for (const query of misspelt) {
      const answer = await ask(service, bearer('ann'), { query });
      expect([query, codes(answer)[0]]).toEqual([query, 'BAD_USER_INPUT']);
      expect(JSON.stringify(answer)).not.toMatch(/did you mean/i);
    }
    const query = 'query($filter: MemberFilter) { members(filter: $filter) { nodes { id } } }';
    for (const each of variables) {
      const answer = await ask(service, bearer('ann'), { query, variables: each });
      expect([each, codes(answer)]).toEqual([each, ['BAD_USER_INPUT']]);
      expect(JSON.stringify(answer)).not.toMatch(/did you mean/i);
    }
  });
});
