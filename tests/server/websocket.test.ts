import { type Client, createClient } from 'graphql-ws';
import { beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { encodeId } from '../../src/resolvers/id.ts';
import type { PaneOutputEvent } from '../../src/tmux/pane-events.ts';
import { bootId, listing, pathHex, server } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';

let service: Service;
beforeEach(async () => {
  service = await startService();
  const ann = service.accounts.add('ann', 'ADMIN');
  service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
  service.accounts.add('ben', 'ANALYST');
  service.accounts.add('cat', 'DEVELOPER');
  service.accounts.beginSession('annas-cookie', 'ann');
  return async () => await service[Symbol.asyncDispose]();
});

const endpoint = () => `${service.url.replace('http', 'ws')}/graphql`;

/** @param lazy false: it stays connected until the server ends it */
function client(as: string, lazy = true): Client & AsyncDisposable {
  const made = createClient({
    url: endpoint(),
    webSocketImpl: WebSocket,
    connectionParams: { Authorization: `Bearer mw_${as}` },
    retryAttempts: 0,
    lazy,
    // The close itself is what these tests look at.
    onNonLazyError: () => undefined,
  });
  return Object.assign(made, { [Symbol.asyncDispose]: async () => await made.dispose() });
}

/** A socket with headers of our choice: the status of its upgrade, or its first message or close. */
function upgrade(headers: Record<string, string>, init: unknown = {}): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(endpoint(), 'graphql-transport-ws', { headers });
    socket.once('unexpected-response', (_request, response) => resolve(response.statusCode));
    socket.once('open', () =>
      socket.send(JSON.stringify({ type: 'connection_init', payload: init })),
    );
    socket.once('message', (data) => {
      resolve(JSON.parse(String(data)).type);
      socket.close();
    });
    socket.once('close', (code) => resolve(code));
    socket.once('error', reject);
  });
}

const follow =
  'subscription { listingChanged { __typename ... on ListingSnapshot { member { login listing { version } } } ... on MemberRemoved { memberId } } }';
const watch = `subscription($pane: ID!, $after: String) { paneOutput(paneId: $pane, after: $after) {
  __typename
  ... on PaneSnapshot { cursor text } ... on PaneChunk { cursor text data }
  ... on PaneClosed { cursor closeReason } ... on UserError { code }
} }`;

function paneId(over: { generation?: string; pane?: number } = {}): string {
  return encodeId({
    type: 'TmuxPane',
    ref: {
      memberId: service.accounts.viewer('ann').member.id,
      pathHex: pathHex('/tmp/tmux-1001/default-1'),
      generation: `${bootId}:4001:100001`,
      pane: 0,
      ...over,
    },
  });
}

const snapshot: PaneOutputEvent = {
  kind: 'snapshot',
  cursor: 'at-0',
  at: new Date(0),
  data: Buffer.from('screen'),
  columns: 80,
  rows: 24,
  cursorColumn: 0,
  cursorRow: 0,
  alternateScreen: false,
  source: 'CONTROL_CLIENT',
  screen: Buffer.from('screen\n'),
};
const chunk = (cursor: string, data: Buffer, carry = Buffer.alloc(0)): PaneOutputEvent => ({
  kind: 'chunk',
  cursor,
  at: new Date(0),
  data,
  carry,
  state: 'text',
});

describe('the door of the WebSocket', () => {
  it('lets in by key, and by cookie with an Origin of ours', async () => {
    expect(await upgrade({}, { Authorization: 'Bearer mw_ann' })).toBe('connection_ack');
    expect(await upgrade({ authorization: 'Bearer mw_ann' })).toBe('connection_ack');
    expect(await upgrade({ cookie: 'muxwarden=annas-cookie', origin: service.url })).toBe(
      'connection_ack',
    );
  });

  it('refuses a foreign or absent Origin and a foreign Host before there is a socket', async () => {
    expect(await upgrade({ cookie: 'muxwarden=annas-cookie', origin: 'http://evil.example' })).toBe(
      403,
    );
    expect(await upgrade({ cookie: 'muxwarden=annas-cookie' })).toBe(403);
    expect(
      await upgrade({ origin: 'http://evil.example' }, { Authorization: 'Bearer mw_ann' }),
    ).toBe(403);
    expect(await upgrade({ host: 'evil.example' }, { Authorization: 'Bearer mw_ann' })).toBe(403);
  });

  it('closes with 4403 for whoever shows no valid credential', async () => {
    expect(await upgrade({})).toBe(4403);
    expect(await upgrade({}, { Authorization: 'Bearer mw_nobody' })).toBe(4403);
    expect(await upgrade({}, { Authorization: ['x'] })).toBe(4403);
  });

  it('runs queries, masks errors and suggests nothing', async () => {
    await using ann = client('ann');
    const run = async (query: string) => {
      for await (const result of ann.iterate({ query })) return result;
      return undefined;
    };
    expect(await run('{ viewer { role } }')).toEqual({ data: { viewer: { role: 'ADMIN' } } });
    const refused: unknown = await run('{ viewr { role } }').catch((error: unknown) => error);
    expect(refused).toMatchObject([
      {
        message: 'Cannot query field "viewr" on type "Query".',
        extensions: { code: 'BAD_USER_INPUT' },
      },
    ]);
    service.fleet.read = () => Promise.reject(new Error('secret /home/ann'));
    const masked = JSON.stringify(await run('{ members { nodes { tmuxServers { id } } } }'));
    expect(masked).toContain('INTERNAL_SERVER_ERROR');
    expect(masked).not.toContain('secret');
  });
});

describe('listingChanged', () => {
  it('sends each visible member, then ListingSynced, then changes', async () => {
    await using ann = client('ann');
    const events = ann.iterate({ query: follow });
    expect((await events.next()).value.data.listingChanged).toMatchObject({
      __typename: 'ListingSnapshot',
      member: { login: 'ann', listing: { version: 'v1' } },
    });
    expect((await events.next()).value.data.listingChanged.__typename).toBe('ListingSynced');
    const { member } = service.accounts.viewer('ann');
    service.fleet.set(listing(member.id, [], { version: 'v2' }));
    expect((await events.next()).value.data.listingChanged).toMatchObject({
      member: { login: 'ann', listing: { version: 'v2' } },
    });
  });

  it('says MemberRemoved of a member that is not there or not yours', async () => {
    await using cat = client('cat');
    const { member } = service.accounts.viewer('ann');
    const id = encodeId({ type: 'Member', id: member.id });
    const events = cat.iterate({
      query: follow.replace('listingChanged', `listingChanged(memberIds: ["${id}"])`),
    });
    expect((await events.next()).value.data.listingChanged).toEqual({
      __typename: 'MemberRemoved',
      memberId: id,
    });
    expect((await events.next()).value.data.listingChanged.__typename).toBe('ListingSynced');
  });

  it('follows a change of role: members go, and come back', async () => {
    await using ben = client('ben');
    const events = ben.iterate({ query: follow });
    const next = async () => (await events.next()).value.data.listingChanged.__typename;
    expect([await next(), await next()]).toEqual(['ListingSnapshot', 'ListingSynced']);
    service.accounts.setRole('ben', 'DEVELOPER');
    expect(await next()).toBe('MemberRemoved');
    service.accounts.setRole('ben', 'ANALYST');
    expect(await next()).toBe('ListingSnapshot');
  });

  it('leaves nothing when the client goes while subscribing (A37), or unsubscribes', async () => {
    const closed: Promise<unknown>[] = [];
    for (let round = 0; round < 20; round++) {
      const socket = new WebSocket(endpoint(), 'graphql-transport-ws');
      await new Promise((resolve) => socket.once('open', resolve));
      socket.send(
        JSON.stringify({ type: 'connection_init', payload: { Authorization: 'Bearer mw_ann' } }),
      );
      await new Promise((resolve) => socket.once('message', resolve));
      socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query: follow } }));
      if (round % 2 === 0) socket.send(JSON.stringify({ id: '1', type: 'complete' }));
      if (round % 4 === 3) await new Promise((resolve) => setTimeout(resolve, 5));
      closed.push(new Promise((resolve) => socket.once('close', resolve)));
      socket.close();
    }
    // The service answers a close after whatever it was sent before.
    await Promise.all(closed);
    await expect.poll(() => service.fleet.following).toBe(0);
    const metrics = async () => await (await fetch(`${service.url}/metrics`)).text();
    await expect.poll(metrics).toContain('muxwarden_subscriptions 0\n');
  });
});

describe('paneOutput', () => {
  it('sends bytes and whole characters', async () => {
    service.fleet.outputs.set(0, [
      snapshot,
      chunk('at-1', Buffer.from([0xe4, 0xb8])),
      chunk('at-2', Buffer.from([0x96, 0x21]), Buffer.from([0xe4, 0xb8])),
    ]);
    await using ann = client('ann');
    const events = ann.iterate({ query: watch, variables: { pane: paneId() } });
    const seen = [];
    for (let count = 0; count < 3; count++) seen.push((await events.next()).value.data.paneOutput);
    expect(seen).toEqual([
      { __typename: 'PaneSnapshot', cursor: 'at-0', text: 'screen' },
      { __typename: 'PaneChunk', cursor: 'at-1', text: '', data: '5Lg=' },
      { __typename: 'PaneChunk', cursor: 'at-2', text: '世!', data: 'liE=' },
    ]);
    await events.return?.(undefined);
    await expect.poll(() => service.fleet.watching).toBe(0);
  });

  it('gives text for reading too', async () => {
    const red = Buffer.from('\u001b[31mred');
    service.fleet.outputs.set(0, [snapshot, chunk('at-1', red)]);
    await using ann = client('ann');
    const query = `subscription { paneOutput(paneId: "${paneId()}") {
      ... on PaneChunk { text plain: text(controls: STRIPPED) }
    } }`;
    const events = ann.iterate({ query });
    await events.next();
    const { value } = await events.next();
    expect(value.data.paneOutput).toEqual({ text: '\u001b[31mred', plain: 'red' });
  });

  it('gives a refusal as its first and only event', async () => {
    await using ann = client('ann');
    await using cat = client('cat');
    const all = async (who: Client, pane: string) => {
      const seen = [];
      for await (const event of who.iterate<{ paneOutput: unknown }>({
        query: watch,
        variables: { pane },
      }))
        seen.push(event.data?.paneOutput);
      return seen;
    };
    expect(await all(ann, paneId({ generation: `${bootId}:1:1` }))).toEqual([
      { __typename: 'StaleGenerationError', code: 'ESTALE' },
    ]);
    const absent = [{ __typename: 'NotFoundError', code: 'ENOTFOUND' }];
    expect(await all(ann, paneId({ pane: 7 }))).toEqual(absent);
    expect(await all(cat, paneId())).toEqual(absent);
    expect(service.fleet.watching).toBe(0);
  });

  it('names a bad argument, and forbids a screen that may not be seen', async () => {
    await using ann = client('ann');
    await using ben = client('ben');
    const first = async (who: Client, variables: Record<string, unknown>) => {
      try {
        return (await who.iterate({ query: watch, variables }).next()).value.errors;
      } catch (errors) {
        return errors;
      }
    };
    expect(await first(ann, { pane: '%0' })).toMatchObject([
      { message: expect.stringMatching(/`paneId`/), extensions: { code: 'BAD_USER_INPUT' } },
    ]);
    expect(await first(ann, { pane: paneId(), after: 'garbage' })).toMatchObject([
      { message: expect.stringMatching(/`after`/), extensions: { code: 'BAD_USER_INPUT' } },
    ]);
    expect(await first(ben, { pane: paneId() })).toMatchObject([
      { extensions: { code: 'FORBIDDEN' } },
    ]);
  });
});

describe('paneScreen', () => {
  const screens = (pane: string, rate = 1) => `subscription {
    paneScreen(paneId: "${pane}", maxPerSecond: ${rate}) {
      __typename ... on PaneScreen { text columns } ... on PaneClosed { closeReason }
      ... on UserError { code }
    }
  }`;
  const first = async (who: Client, query: string) => {
    try {
      return (await who.iterate({ query }).next()).value;
    } catch (errors) {
      return { errors };
    }
  };

  it('gives pictures, and ends when the right to them does', async () => {
    service.fleet.outputs.set(0, [snapshot]);
    await using ann = client('ann');
    const events = ann.iterate<{ paneScreen: unknown }>({ query: screens(paneId()) });
    const next = async () => (await events.next()).value?.data?.paneScreen;
    expect(await next()).toEqual({ __typename: 'PaneScreen', text: 'screen\n', columns: 80 });
    const viewer = service.accounts.viewer('ann');
    service.accounts.let('ann', { ...viewer, memberIds: new Set(['another']) });
    expect(await next()).toEqual({
      __typename: 'PaneClosed',
      closeReason: 'PERMISSION_WITHDRAWN',
    });
    expect((await events.next()).done).toBe(true);
    await expect.poll(() => service.fleet.watching).toBe(0);
  });

  it('refuses as paneOutput does', async () => {
    await using ann = client('ann');
    await using ben = client('ben');
    await using cat = client('cat');
    const code = (value: string) => ({ errors: [{ extensions: { code: value } }] });
    expect(await first(ben, screens(paneId()))).toMatchObject(code('FORBIDDEN'));
    for (const rate of [0, 0.09, 10.1, -1])
      expect(await first(ann, screens(paneId(), rate))).toMatchObject(code('BAD_USER_INPUT'));
    expect(await first(ann, screens(paneId({ generation: `${bootId}:1:1` })))).toMatchObject({
      data: { paneScreen: { __typename: 'StaleGenerationError', code: 'ESTALE' } },
    });
    for (const [who, pane] of [
      [ann, paneId({ pane: 7 })],
      [cat, paneId()],
    ] as const)
      expect(await first(who, screens(pane))).toMatchObject({
        data: { paneScreen: { __typename: 'NotFoundError', code: 'ENOTFOUND' } },
      });
  });
});

describe('the end of authority', () => {
  it('ends streams with the reason, then the socket with 4403, and no event comes after', async () => {
    service.fleet.outputs.set(0, [snapshot]);
    await using ann = client('ann', false);
    const closed = Promise.withResolvers<{ code: number }>();
    ann.on('closed', (event) => closed.resolve(event as { code: number }));
    const panes = ann.iterate({ query: watch, variables: { pane: paneId() } });
    const listings = ann.iterate({ query: follow });
    await panes.next();
    expect((await listings.next()).value.data).toBeDefined();
    expect((await listings.next()).value.data).toBeDefined();
    const began = performance.now();
    service.accounts.let('ann', undefined);
    expect((await panes.next()).value.data.paneOutput).toEqual({
      __typename: 'PaneClosed',
      cursor: 'at-0',
      closeReason: 'PERMISSION_WITHDRAWN',
    });
    expect((await listings.next()).value.errors).toMatchObject([
      { extensions: { code: 'UNAUTHENTICATED' } },
    ]);
    expect((await panes.next()).done).toBe(true);
    expect((await closed.promise).code).toBe(4403);
    expect(performance.now() - began).toBeLessThan(10_000);
    expect([service.fleet.following, service.fleet.watching]).toEqual([0, 0]);
  });

  it('comes by itself when the credential expires', async () => {
    const viewer = service.accounts.viewer('ann');
    service.accounts.let('ann', { ...viewer, expiresAt: new Date(Date.now() + 1_500) });
    await using ann = client('ann', false);
    const closed = Promise.withResolvers<{ code: number }>();
    ann.on('closed', (event) => closed.resolve(event as { code: number }));
    const events = ann.iterate({ query: follow });
    await events.next();
    await events.next();
    expect((await events.next()).value.errors).toMatchObject([
      { extensions: { code: 'UNAUTHENTICATED' } },
    ]);
    expect((await closed.promise).code).toBe(4403);
  });
});

describe('stopping', () => {
  it('ends streams with a reason and sockets with 1001', async () => {
    service.fleet.outputs.set(0, [snapshot]);
    await using ann = client('ann', false);
    const closed = Promise.withResolvers<{ code: number }>();
    ann.on('closed', (event) => closed.resolve(event as { code: number }));
    const panes = ann.iterate({ query: watch, variables: { pane: paneId() } });
    await panes.next();
    const stopped = service.server.stop(5_000);
    expect((await panes.next()).value.data.paneOutput.closeReason).toBe('SERVICE_DRAINING');
    expect((await closed.promise).code).toBe(1001);
    await stopped;
    await expect(fetch(`${service.url}/health`)).rejects.toThrow();
  });
});

describe('a client that breaks the protocol', () => {
  it('by a message of the server is closed with 4400, and is no error of ours', async () => {
    const code = await new Promise((resolve, reject) => {
      const socket = new WebSocket(endpoint(), 'graphql-transport-ws', {
        headers: { authorization: 'Bearer mw_ann' },
      });
      socket.once('open', () => socket.send(JSON.stringify({ type: 'connection_init' })));
      socket.once('message', () =>
        socket.send(JSON.stringify({ type: 'next', id: '1', payload: { data: null } })),
      );
      socket.once('close', resolve);
      socket.once('error', reject);
    });
    expect(code).toBe(4400);
    expect(service.log.join('')).not.toMatch(/"level":50/);
  });
});
