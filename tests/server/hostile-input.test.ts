import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { mutated, random, seed } from '../support/mutations.ts';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';
import { rounds } from '../support/tier.ts';
import { bearer, socketClient } from '../support/transports.ts';

/**
 * Whatever comes in: no error of ours, nothing done, nothing left, and the next caller is answered.
 * An act would be an error here, for nothing can be put on record.
 */
let service: Service;
beforeAll(async () => {
  service = await startService();
  const ann = service.accounts.add('ann', 'ADMIN');
  service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
  await service.query('ann', '{ viewer { role } }');
});
afterAll(() => service[Symbol.asyncDispose]());

async function expectUnharmed(): Promise<void> {
  expect(await service.query('ann', '{ viewer { role } }')).toEqual({
    data: { viewer: { role: 'ADMIN' } },
  });
  expect(service.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  expect([service.fleet.following, service.fleet.watching]).toEqual([0, 0]);
}

const openDescriptors = async () => (await readdir('/proc/self/fd')).length;

/** A true text with some of its characters lost, doubled, exchanged or made up. */
const damaged = (text: string) =>
  fc
    .array(fc.tuple(fc.nat(text.length), fc.nat(9), fc.string({ unit: 'binary', maxLength: 4 })), {
      minLength: 1,
      maxLength: 6,
    })
    .map((cuts) =>
      cuts.reduce((made, [at, lost, put]) => made.slice(0, at) + put + made.slice(at + lost), text),
    );

const documents = [
  'query A($id: ID!) { node(id: $id) { ... on TmuxPane { title capture { __typename } } } }',
  'mutation { restartPane(input: {paneId: "x", idempotencyKey: "k"}) { __typename } }',
  '{ members(first: 2, filter: {listing: [FRESH]}) { nodes { login tmuxServers { id } } } }',
  '{ a: __typename ...F @include(if: true) } fragment F on Query { viewer { role } }',
];

const subscribing = (document: string) =>
  fc
    .tuple(damaged(document), fc.nat(99))
    .map(([query, id]) => JSON.stringify({ id: `${id}`, type: 'subscribe', payload: { query } }));

describe('hostile input', () => {
  it('as a body of JSON is answered with a code, never with 500', async () => {
    const bodies = documents.map((query) => JSON.stringify({ query, variables: { id: 'x' } }));
    const count = rounds(400, 2_000_000);
    await fc.assert(
      fc.asyncProperty(fc.oneof(...bodies.map(damaged), fc.json()), async (body) => {
        const response = await service.post(body, { as: 'ann' });
        const text = await response.text();
        expect(response.status).toBeLessThan(500);
        expect(text).not.toMatch(/INTERNAL_SERVER_ERROR|node_modules|did you mean/i);
        if (response.status >= 400) expect(text).toMatch(/"code":"[A-Z_]+"/);
      }),
      { numRuns: count, seed },
    );
    console.log(`${count} bodies, seed ${seed}`);
    await expectUnharmed();
  });

  it('as bytes of HTTP ends in an answer or a close', { timeout: 3_600_000 }, async () => {
    const requests = [...documents, '{ viewer { role } }'].map((query) => {
      const body = JSON.stringify({ query });
      return Buffer.from(
        `POST /graphql HTTP/1.1\r\nHost: 127.0.0.1:${service.server.port}\r\nAuthorization: Bearer mw_ann\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
      );
    });
    const words = [
      ...[
        '\r\n',
        '\r\n\r\n',
        ':',
        ' ',
        '\0',
        '\xff',
        '"',
        '{',
        '}',
        'chunked',
        '0\r\n\r\n',
        '9'.repeat(30),
      ],
      ...[
        'Transfer-Encoding: chunked\r\n',
        'Expect: 100-continue\r\n',
        'Upgrade: websocket\r\n',
        'Connection: keep-alive\r\n',
      ],
      ...[
        'GET ',
        'HTTP/1.0',
        '/health',
        '/sign-in',
        '/metrics',
        'Content-Length: 0\r\n',
        `X: ${'a'.repeat(20_000)}\r\n`,
      ],
    ].map((text) => Buffer.from(text, 'latin1'));
    const before = await openDescriptors();
    const count = rounds(3_000, 2_000_000);
    const next = random(seed);
    const statuses = new Map<string, number>();
    let left = count;
    const sender = async () => {
      while (left-- > 0) {
        const bytes = mutated(requests, words, next);
        const answer = await exchange(bytes);
        const said = `seed ${seed}: ${JSON.stringify(bytes.toString('latin1'))}`;
        if (answer !== '') expect(answer, said).toMatch(/^HTTP\/1\.1 (?!5\d\d)\d{3} /);
        const status = answer.slice(9, 12) || 'closed';
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: 16 }, sender));
    const counts = [...statuses].sort().map(([status, times]) => `${status} ${times}`);
    console.log(`${count} requests of bytes, seed ${seed}: ${counts.join(', ')}`);
    expect(statuses.size).toBeGreaterThan(3);
    await expectUnharmed();
    await expect.poll(openDescriptors, { timeout: 20_000 }).toBeLessThanOrEqual(before + 5);
  });

  it('as messages of a WebSocket ends in an answer or a close with a code of the protocol', async () => {
    const messages = documents.map((query, id) =>
      JSON.stringify({ id: String(id), type: 'subscribe', payload: { query } }),
    );
    const other = ['ping', 'pong', 'complete', 'connection_init', 'next', 'error'].map((type) =>
      JSON.stringify({ type, id: '1', payload: {} }),
    );
    const sessions = rounds(80, 200_000);
    const each = 40;
    const codes = new Set<number>();
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            // What is no message ends the socket, so most of them are one, with a damaged document.
            { weight: 10, arbitrary: fc.oneof(...documents.map(subscribing)) },
            { weight: 1, arbitrary: fc.oneof(...[...messages, ...other].map(damaged)) },
          ),
          {
            minLength: each,
            maxLength: each,
          },
        ),
        async (sent) => codes.add(await overWebSocket(sent)) !== undefined,
      ),
      { numRuns: sessions, seed },
    );
    console.log(
      `${sessions * each} messages, seed ${seed}, closed with ${[...codes].sort().join(', ')}`,
    );
    for (const code of codes) expect([1000, 4400, 4403, 4409, 4429]).toContain(code);
    await expect.poll(() => service.fleet.following + service.fleet.watching).toBe(0);
    await expectUnharmed();
  });
});

/** What comes back until the end; who says nothing more for a while is left. */
function exchange(bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(service.server.port, '127.0.0.1');
    let text = '';
    const leave = () => {
      socket.destroy();
      resolve(text);
    };
    socket.setTimeout(50, leave);
    socket.on('data', (piece) => {
      text += piece.toString('latin1');
    });
    socket.once('close', leave).once('error', leave);
    socket.end(bytes);
  });
}

/** The code that the socket is closed with: the server's, or 1000 by us once all was sent. */
function overWebSocket(messages: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const address = `${service.url.replace('http', 'ws')}/graphql`;
    const socket = new WebSocket(address, 'graphql-transport-ws', { headers: bearer('ann') });
    socket.once('error', reject);
    socket.once('close', resolve);
    socket.once('open', () => socket.send(JSON.stringify({ type: 'connection_init' })));
    socket.once('message', () => {
      for (const message of messages) socket.send(message);
      socket.send('', () => setTimeout(() => socket.close(1000), 5));
    });
  });
}

describe('a service that stops with 200 open streams', () => {
  it('ends each with a reason, closes the sockets with 1001, and leaves nothing', async () => {
    const before = await openDescriptors();
    const stopping = await startService();
    const ann = stopping.accounts.add('ann', 'ADMIN');
    stopping.fleet.set(listing(ann.id, [server(ann.id, 1)]));
    const query = 'subscription { listingChanged { __typename } }';
    const sse = await Promise.all(
      Array.from({ length: 100 }, () =>
        stopping.post({ query }, { as: 'ann', headers: { accept: 'text/event-stream' } }),
      ),
    );
    const texts = sse.map((response) => response.text());
    const closed: number[] = [];
    const clients = [1, 2].map(() => {
      const client = socketClient(stopping, bearer('ann'));
      client.on('closed', (event) => closed.push((event as { code: number }).code));
      return client;
    });
    const streams = clients.flatMap((client) =>
      Array.from({ length: 50 }, () => client.iterate<Record<string, unknown>>({ query })),
    );
    await Promise.all(streams.map((stream) => stream.next()));
    await expect.poll(() => stopping.fleet.following).toBe(200);
    await stopping.server.stop(10_000);
    for (const text of await Promise.all(texts)) expect(text).toMatch(/event: complete\n/);
    const ends = await Promise.all(
      streams.map(async (stream) => {
        for (;;) if ((await stream.next()).done) return true;
      }),
    );
    expect(ends).toHaveLength(100);
    await expect.poll(() => closed).toEqual([1001, 1001]);
    expect(stopping.fleet.following).toBe(0);
    expect(stopping.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    for (const client of clients) await client.dispose();
    await expect.poll(openDescriptors, { timeout: 20_000 }).toBeLessThanOrEqual(before + 5);
  });
});
