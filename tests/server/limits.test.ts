import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { encodeId } from '../../src/resolvers/id.ts';
import { generation, pathHex } from '../support/acting.ts';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Answer, type Service, startService } from '../support/synthetic-service.ts';
import { bearer, socketClient, transports } from '../support/transports.ts';

/**
 * Every limit at n and n+1, on what would run, alike over HTTP, SSE and WebSocket.
 */
let service: Service;
beforeAll(async () => {
  service = await startService({ maxSubscriptionsPerActor: 60, maxSubscriptionsPerSocket: 5 });
  const ann = service.accounts.add('ann', 'ADMIN');
  service.accounts.add('ben', 'DEVELOPER');
  service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
});
afterAll(async () => await service[Symbol.asyncDispose]());

type Codes = readonly string[];
const codes = ({ errors }: Answer<unknown>): Codes =>
  errors?.map(({ extensions }) => extensions.code) ?? [];

const overEach = Object.entries(transports).map(
  ([name, ask]) =>
    [
      name,
      async (query: string, variables?: object) =>
        codes(await ask(service, bearer('ann'), { query, ...(variables && { variables }) })),
    ] as const,
);

/** `depth` fields below each other, the last one a scalar. */
const deep = (depth: number) => {
  const path = ['members', 'nodes', 'tmuxServers', 'sessions', 'windows', 'panes'];
  while (path.length < depth - 1) path.push(path.at(-1) === 'window' ? 'panes' : 'window');
  return `{ ${path.slice(0, depth - 1).join(' { ')} { id ${'}'.repeat(depth - 1)} }`.replace(
    'members',
    'members(first: 1)',
  );
};
/** A connection of `first` rows: 1 + first for `nodes` itself. */
const costly = (first: number, selection = 'id') =>
  `{ members(first: ${first}) { nodes { ${selection} } } }`;

describe.each(overEach)('over %s', (_name, run) => {
  it('depth 12 runs and 13 does not, also through a fragment; introspection is exempt', async () => {
    expect(await run(deep(12))).toEqual([]);
    expect(await run(deep(13))).toEqual(['QUERY_TOO_COMPLEX']);
    const inside = deep(12).slice(2, -2);
    expect(await run(`{ ...F } fragment F on Query { ${inside} }`)).toEqual([]);
    expect(await run(`{ ...F } fragment F on Query { ${deep(13).slice(2, -2)} }`)).toEqual([
      'QUERY_TOO_COMPLEX',
    ]);
    const types = 'ofType { '.repeat(14);
    expect(
      await run(`{ __schema { types { fields { type { ${types} name ${'}'.repeat(14)} } } } } }`),
    ).toEqual([]);
  });

  it('1,000 tokens run and 1,001 do not', async () => {
    const tokens = (count: number) =>
      `{ members(filter: {listing: [${'FRESH '.repeat(count - 19)}]}) { nodes { id } } }`;
    expect(await run(tokens(1_000))).toEqual([]);
    expect(await run(tokens(1_001))).toEqual(['QUERY_TOO_COMPLEX']);
  });

  it('a document that repeats one field too often to be checked is refused', async () => {
    expect(await run(`{ viewer { ${'role '.repeat(995)} } }`)).toEqual(['QUERY_TOO_COMPLEX']);
  });

  it('30 aliases run and 31 do not, also when a fragment multiplies them', async () => {
    const aliases = (count: number) =>
      Array.from({ length: count }, (_, index) => `a${index}: __typename`).join(' ');
    expect(await run(`{ ${aliases(30)} }`)).toEqual([]);
    expect(await run(`{ ${aliases(31)} }`)).toEqual(['QUERY_TOO_COMPLEX']);
    const spread = (per: number) =>
      `{ x: viewer { ...F } y: viewer { ...F } } fragment F on Viewer { ${aliases(per)} }`;
    expect(await run(spread(14))).toEqual([]);
    expect(await run(spread(15))).toEqual(['QUERY_TOO_COMPLEX']);
  });

  it('complexity 2,000 runs and one more does not', async () => {
    // 1 for the connection, 100 x (nodes 1 + listing 19 times) = 2,001; `viewer` would be one more.
    const listings = (count: number) => 'listing { state } '.repeat(count);
    expect(await run(`{ members(first: 99) { nodes { ${listings(19)} } } }`)).toEqual([]);
    expect(await run(`{ members(first: 100) { nodes { ${listings(19)} } } }`)).toEqual([
      'QUERY_TOO_COMPLEX',
    ]);
    const exact = (more: number) =>
      `{ members(first: 99) { nodes { ${listings(19)} } } ${'viewer { role } '.repeat(more)} }`;
    expect(await run(exact(19))).toEqual([]);
    expect(await run(exact(20))).toEqual(['QUERY_TOO_COMPLEX']);
  });

  it('a variable counts as what it is, and its default as well', async () => {
    const query = `query($n: Int = 100) { members(first: $n) { nodes { ${'listing { state } '.repeat(20)} } } }`;
    expect(await run(query, { n: 10 })).toEqual([]);
    expect(await run(query, { n: 100 })).toEqual(['QUERY_TOO_COMPLEX']);
    expect(await run(query)).toEqual(['QUERY_TOO_COMPLEX']);
  });

  it('what is skipped does not count', async () => {
    const query = `query($no: Boolean!) { viewer { role } ... on Query @include(if: $no) { ${deep(13).slice(2, -2)} } }`;
    expect(await run(query, { no: false })).toEqual([]);
    expect(await run(query, { no: true })).toEqual(['QUERY_TOO_COMPLEX']);
  });

  it('a capture costs 20', async () => {
    const query = (first: number) =>
      `{ panes(first: ${first}) { nodes { capture { __typename } } } }`;
    expect(await run(query(95))).toEqual([]);
    expect(await run(query(96))).toEqual(['QUERY_TOO_COMPLEX']);
  });

  it('what is below `nodes(ids)` counts once for each id, literal, variable or default', async () => {
    // The field itself 1, and 20 for each capture: 1 + 99 x 20 = 1,981 and 20 more.
    const captures = '{ ... on TmuxPane { capture { __typename } } }';
    const literal = (count: number) => {
      const ids = JSON.stringify(Array.from({ length: count }, () => 'x'));
      return { ids, query: `{ nodes(ids: ${ids}) ${captures} }` };
    };
    const tooComplex = ['QUERY_TOO_COMPLEX'];
    expect(await run(literal(99).query)).not.toEqual(tooComplex);
    expect(await run(literal(100).query)).toEqual(tooComplex);
    const variable = `query($ids: [ID!]!) { nodes(ids: $ids) ${captures} }`;
    expect(await run(variable, { ids: Array(99).fill('x') })).not.toEqual(tooComplex);
    expect(await run(variable, { ids: Array(100).fill('x') })).toEqual(tooComplex);
    const usual = (count: number) =>
      `query($ids: [ID!]! = ${literal(count).ids}) { nodes(ids: $ids) ${captures} }`;
    expect(await run(usual(99))).not.toEqual(tooComplex);
    expect(await run(usual(100))).toEqual(tooComplex);
    const aliased = Array.from(
      { length: 30 },
      (_, index) => `a${index}: nodes(ids: $ids) ${captures}`,
    );
    const flood = `query($ids: [ID!]!) { ${aliased.join(' ')} }`;
    expect(await run(flood, { ids: ['x', 'x', 'x'] })).not.toEqual(tooComplex);
    expect(await run(flood, { ids: Array(100).fill('x') })).toEqual(tooComplex);
  });

  it('fragments that double each other are measured, not unfolded', async () => {
    const doubling = Array.from(
      { length: 60 },
      (_, index) => `fragment F${index} on Viewer { ...F${index + 1} ...F${index + 1} }`,
    ).join(' ');
    const started = performance.now();
    await run(`{ viewer { ...F0 } } ${doubling} fragment F60 on Viewer { m: member { id } }`);
    expect(performance.now() - started).toBeLessThan(20_000);
  });

  it('one acting field runs at most; reads beside it are fine', async () => {
    // Nothing else is wrong with either: one alone comes as far as the record, which is none here.
    const memberId = service.accounts.viewer('ann').member.id;
    const pane = (number: number) =>
      encodeId({ type: 'TmuxPane', ref: { memberId, pathHex, generation, pane: number } });
    const act = (name: string, number: number) =>
      `${name}: restartPane(input: {paneId: "${pane(number)}", idempotencyKey: "k"}) { __typename }`;
    expect(await run(`mutation { ${act('a', 0)} }`)).not.toEqual(['BAD_USER_INPUT']);
    expect(await run(`mutation { ${act('a', 0)} ${act('b', 1)} }`)).toEqual(['BAD_USER_INPUT']);
    expect(
      await run(`mutation { ...F ${act('b', 1)} } fragment F on Mutation { ${act('a', 0)} }`),
    ).toEqual(['BAD_USER_INPUT']);
    const id = encodeId({ type: 'Member', id: memberId });
    expect(
      await run(
        `mutation { a: refreshListing(memberId: "${id}") { id } b: refreshListing(memberId: "${id}") { id } }`,
      ),
    ).toEqual([]);
  });

  it('`first` is 1 to 100', async () => {
    for (const [first, expected] of [
      [1, []],
      [100, []],
      [0, ['BAD_USER_INPUT']],
      [101, ['BAD_USER_INPUT']],
    ] as const)
      expect(await run(costly(first))).toEqual(expected);
  });
});

describe('the size of a body', () => {
  const padded = (bytes: number) => {
    const body = JSON.stringify({
      query: '{ viewer { role } }',
      operationName: null,
      extensions: { pad: '' },
    });
    return body.replace('"pad":""', `"pad":"${'x'.repeat(bytes - body.length)}"`);
  };

  it('of 64 KiB is read; one byte more is 413, not parsed', async () => {
    expect(padded(65_536)).toHaveLength(65_536);
    expect((await service.post(padded(65_536), { as: 'ann' })).status).toBe(200);
    const response = await service.post(padded(65_537), { as: 'ann' });
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject({
      errors: [{ extensions: { code: 'BAD_USER_INPUT' } }],
    });
  });

  it('that was not announced is 413 as well', async () => {
    const body = new ReadableStream({
      start(controller) {
        for (let sent = 0; sent < 80; sent++) controller.enqueue(new Uint8Array(1_024).fill(32));
        controller.close();
      },
    });
    const response = await fetch(`${service.url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer mw_ann' },
      body,
      duplex: 'half',
    } as RequestInit);
    expect(response.status).toBe(413);
  });

  it('of a message over WebSocket ends the socket with 1009', async () => {
    const socket = new WebSocket(
      `${service.url.replace('http', 'ws')}/graphql`,
      'graphql-transport-ws',
    );
    await new Promise((resolve) => socket.once('open', resolve));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.send('x'.repeat(65_537));
    expect(await closed).toBe(1009);
  });
});

describe('subscriptions', () => {
  const query = 'subscription { listingChanged { __typename } }';

  it('run up to 5 on this socket, with queries beside them; one more closes it with 4429', async () => {
    const closed = Promise.withResolvers<unknown>();
    const client = socketClient(service, bearer('ann'));
    client.on('closed', (event) => closed.resolve(event));
    const open = Array.from({ length: 5 }, () => client.iterate({ query }));
    for (const events of open) expect((await events.next()).done).toBe(false);
    expect(service.fleet.following).toBe(5);
    const queries = Array.from({ length: 60 }, () => client.iterate({ query: '{ __typename }' }));
    for (const query of queries) {
      expect(await query.next()).toMatchObject({ value: { data: { __typename: 'Query' } } });
    }
    const sixth = client.iterate({ query });
    await expect(sixth.next()).rejects.toMatchObject({ code: 4429 });
    expect(await closed.promise).toMatchObject({ code: 4429 });
    for (const events of open) await events.next().catch(() => undefined);
    await expect.poll(() => service.fleet.following).toBe(0);
    await client.dispose();
  });

  it('run up to 60 for one actor on all transports together; others are not hindered', async () => {
    const gone = new AbortController();
    const follow = (as: string) =>
      service.post(
        { query },
        { as, headers: { accept: 'text/event-stream' }, signal: gone.signal },
      );
    const open = await Promise.all(Array.from({ length: 60 }, () => follow('ann')));
    expect(open.every(({ status }) => status === 200)).toBe(true);
    const refused = await follow('ann');
    expect(refused.status).toBe(429);
    expect(await refused.text()).toContain('RATE_LIMITED');
    expect(codes(await transports.WebSocket(service, bearer('ann'), { query }))).toEqual([
      'RATE_LIMITED',
    ]);
    expect((await follow('ben')).status).toBe(200);
    gone.abort();
    await expect.poll(() => service.fleet.following).toBe(0);
    expect(codes(await transports.WebSocket(service, bearer('ann'), { query }))).toEqual([]);
  });
});
