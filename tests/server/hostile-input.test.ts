import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mutated, type Random, random, seed, withoutStacks } from '../support/mutations.ts';
import { frame, openRawWebSocket } from '../support/raw-websocket.ts';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';
import { rounds } from '../support/tier.ts';
import { bearer, socketClient } from '../support/transports.ts';

/**
 * Whatever comes in: no error of ours, nothing done, nothing left, and the next caller is answered.
 * An act would be an error here, for nothing can be put on record.
 */
const timeout = rounds(60_000, 24 * 3_600_000);
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

const documents = [
  'query A($id: ID!) { node(id: $id) { ... on TmuxPane { title capture { __typename } } } }',
  'mutation { restartPane(input: {paneId: "x", idempotencyKey: "k"}) { __typename } }',
  '{ members(first: 2, filter: {listing: [FRESH]}) { nodes { login tmuxServers { id } } } }',
  '{ a: __typename ...F @include(if: true) } fragment F on Query { viewer { role } }',
].map((text) => Buffer.from(text));
const bodies = documents.map((query) =>
  Buffer.from(JSON.stringify({ query: `${query}`, variables: { id: 'x' } })),
);
const bytesOf = (texts: readonly string[]) => texts.map((text) => Buffer.from(text, 'latin1'));
const marks = bytesOf([
  '\0',
  '\xff',
  '"',
  '{',
  '}',
  '(',
  ':',
  '...',
  '@',
  '$',
  '\\u',
  '9'.repeat(30),
]);

/** Each input by its number alone, so that a seed gives it again however the many are scheduled. */
async function inParallel(
  count: number,
  senders: number,
  send: (next: Random, number: number) => Promise<void>,
): Promise<void> {
  using _ = withoutStacks();
  let sent = 0;
  const sender = async () => {
    while (sent < count) {
      const number = sent;
      sent += 1;
      await send(random(seed + number), number);
    }
  };
  await Promise.all(Array.from({ length: senders }, sender));
}

describe('hostile input', () => {
  it('as a body of JSON is answered with a code, never with 500', { timeout }, async () => {
    const count = rounds(2_000, 2_000_000);
    await inParallel(count, 16, async (next) => {
      const body = mutated(bodies, marks, next);
      const response = await service.post(body, { as: 'ann' });
      const text = await response.text();
      const isRight =
        response.status < 500 &&
        !/INTERNAL_SERVER_ERROR|node_modules|did you mean/i.test(text) &&
        (response.status < 400 || /"code":"[A-Z_]+"/.test(text));
      if (!isRight)
        expect.fail(
          `seed ${seed}: ${JSON.stringify(body.toString('latin1'))}: ${response.status} ${text}`,
        );
    });
    console.log(`${count} bodies, seed ${seed}`);
    await expectUnharmed();
  });

  it('as bytes of HTTP ends in an answer or a close', { timeout }, async () => {
    const requests = [...documents, Buffer.from('{ viewer { role } }')].map((query) => {
      const body = JSON.stringify({ query: `${query}` });
      return Buffer.from(
        `POST /graphql HTTP/1.1\r\nHost: 127.0.0.1:${service.server.port}\r\nAuthorization: Bearer mw_ann\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
      );
    });
    const words = bytesOf([
      ...['\r\n', '\r\n\r\n', ':', ' ', '\0', '\xff', '"', '{', '}', 'chunked', '0\r\n\r\n'],
      ...['Transfer-Encoding: chunked\r\n', 'Expect: 100-continue\r\n', 'Upgrade: websocket\r\n'],
      ...['Connection: keep-alive\r\n', 'GET ', 'HTTP/1.0', '/health', '/sign-in', '/metrics'],
      ...['Content-Length: 0\r\n', `X: ${'a'.repeat(20_000)}\r\n`, '9'.repeat(30)],
    ]);
    const before = await openDescriptors();
    const count = rounds(10_000, 10_000_000);
    const statuses = new Map<string, number>();
    await inParallel(count, 64, async (next) => {
      const bytes = mutated(requests, words, next);
      const answer = await exchange(bytes);
      if (answer !== '' && !/^HTTP\/1\.1 (?!5\d\d)\d{3} /.test(answer))
        expect.fail(`seed ${seed}: ${JSON.stringify(bytes.toString('latin1'))}: ${answer}`);
      const status = answer.slice(9, 12) || 'closed';
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    });
    const counts = [...statuses].sort().map(([status, times]) => `${status} ${times}`);
    console.log(`${count} requests of bytes, seed ${seed}: ${counts.join(', ')}`);
    expect(statuses.size).toBeGreaterThan(3);
    await expectUnharmed();
    await expect.poll(openDescriptors, { timeout: 20_000 }).toBeLessThanOrEqual(before + 5);
  });

  it('as messages of a WebSocket ends in an answer or a close with a code of the protocol', {
    timeout,
  }, async () => {
    const subscribe = (query: Buffer, id: number) =>
      Buffer.from(
        JSON.stringify({ id: `${id}`, type: 'subscribe', payload: { query: `${query}` } }),
      );
    const types = ['ping', 'pong', 'complete', 'connection_init', 'next', 'error'];
    const messages = [
      ...documents.map(subscribe),
      ...types.map((type) => Buffer.from(JSON.stringify({ type, id: '1', payload: {} }))),
    ];
    const frames = messages.map((message) => frame(message));
    const before = await openDescriptors();
    // As many at a time as a socket may have under way, and several times that on each.
    const [atOnce, times] = [25, 2];
    const each = atOnce * times;
    const sessions = rounds(200, 200_000);
    const codes = new Map<number | undefined, number>();
    await inParallel(sessions, 8, async (next, number) => {
      const socket = await openRawWebSocket(service.server.port, bearer('ann'));
      socket.send(frame(Buffer.from(JSON.stringify({ type: 'connection_init' }))));
      expect(await socket.until(1, /connection_ack/)).toBe(true);
      // Damaged documents in true messages leave the socket open: each of them is answered.
      for (let id = 1; id < each; id += 1) {
        socket.send(frame(subscribe(mutated(documents, marks, next), id)));
        if (id % atOnce !== 0 && id < each - 1) continue;
        const areAnswered = await socket.until(id, /"type":"(?:error|complete)"/);
        if (!areAnswered) expect.fail(`session ${number}, seed ${seed}: ended by message ${id}`);
      }
      // The last one is damaged itself, as a message or down to the bits of its frame.
      socket.send(
        number % 2 === 0 ? frame(mutated(messages, marks, next)) : mutated(frames, marks, next),
      );
      const code = await socket.end();
      codes.set(code, (codes.get(code) ?? 0) + 1);
      const said = socket.texts.join('\n');
      if (/INTERNAL_SERVER_ERROR|node_modules|did you mean/i.test(said))
        expect.fail(`session ${number}, seed ${seed}: ${said}`);
    });
    console.log(
      `${sessions * each} messages, seed ${seed}, closed with ${[...codes].map((pair) => pair.join(': ')).join(', ')}`,
    );
    for (const code of codes.keys())
      expect([undefined, 1000, 1002, 1003, 1007, 1009, 4400, 4403, 4409, 4429]).toContain(code);
    await expect.poll(() => service.fleet.following + service.fleet.watching).toBe(0);
    await expectUnharmed();
    await expect.poll(openDescriptors, { timeout: 20_000 }).toBeLessThanOrEqual(before + 5);
  });
});

/** What comes back until the end, which is the service's to make: nothing more is coming. */
function exchange(bytes: Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(service.server.port, '127.0.0.1');
    let text = '';
    socket.setTimeout(20_000, () => {
      socket.destroy();
      reject(new Error(`no answer and no end: ${JSON.stringify(bytes.toString('latin1'))}`));
    });
    socket.on('data', (piece) => {
      text += piece.toString('latin1');
    });
    // Reset, where it was closed before it took all: that is an end as well.
    socket.on('error', () => undefined);
    socket.once('close', () => resolve(text));
    socket.end(bytes);
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
      // It does not leave first: then the code would be its own.
      const client = socketClient(stopping, bearer('ann'), 60_000);
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
