import { readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { documents, marks, requestsTo } from '../support/damaged-requests.ts';
import { count, inParallel, inWords } from '../support/many-turns.ts';
import { inputCount, mutated, type Random, seed } from '../support/mutations.ts';
import { type Answer, pipelined } from '../support/pipelined.ts';
import { fragments, frame, openRawWebSocket } from '../support/raw-websocket.ts';
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

/** No word of ours is in an answer that only our log should have, and no key of the caller. */
const leak = /INTERNAL_SERVER_ERROR|node_modules|[Dd]id you mean|mw_ann/;
const isRight = ({ status, body }: Answer) =>
  status < 500 &&
  !leak.test(body) &&
  (!body.startsWith('{"errors"') || /"code":"[A-Z_]+"/.test(body));

/**
 * Sends requests that are damaged within their bounds and one that is right on one connection: each has its
 * answer, in its turn, unless one says that it is the last. Then one that is damaged anywhere.
 * @returns those that were not seen any more, to be sent again
 */
async function answeredInTurn(
  bounded: readonly Buffer[],
  right: Buffer,
  anywhere: Buffer | undefined,
  statuses: Map<string, number>,
): Promise<{ readonly unseen: readonly Buffer[]; readonly isWhole: boolean }> {
  const due = bounded.length + 1;
  const sent = [...bounded, right];
  const { answers, rest } = await pipelined(
    service.server.port,
    Buffer.concat(sent),
    due,
    anywhere ?? Buffer.of(),
  );
  const fail = (what: string) =>
    expect.fail(
      `seed ${seed}: ${what} of ${JSON.stringify([...sent, anywhere].map((bytes) => bytes?.toString('latin1')))}: ${JSON.stringify({ answers, rest })}`,
    );
  for (const [number, answer] of answers.entries()) {
    if (number === bounded.length) {
      if (answer.body !== '{"data":{"right":{"role":"ADMIN"}}}') fail('the right one');
    } else if (!isRight(answer)) fail(`answer ${number}`);
    count(statuses, `${answer.status}`);
  }
  const isWhole = answers.length === due;
  if (!isWhole && answers.at(-1)?.isLast !== true) fail(`no answer ${answers.length}`);
  if (isWhole && anywhere !== undefined) {
    if (/HTTP\/1\.1 5\d\d /.test(rest) || leak.test(rest)) fail('the last one');
    count(statuses, rest.slice(9, 12) || 'closed');
  }
  return { unseen: bounded.slice(answers.length), isWhole };
}

const several = (many: number, make: () => Buffer) => Array.from({ length: many }, make);

describe('hostile input', () => {
  it('as a body of JSON is answered with a code, never with 500', { timeout }, async () => {
    const { body, right } = requestsTo(service.server.port);
    const statuses = new Map<string, number>();
    await inParallel(inputCount(2_000, 2_000_000), 4, async (next) => {
      const bodies = several(32, () => body(next));
      const { isWhole } = await answeredInTurn(bodies, right, undefined, statuses);
      expect(isWhole).toBe(true);
      return bodies.length;
    });
    console.log(inWords(statuses));
    await expectUnharmed();
  });

  it('as bytes of HTTP ends in an answer or a close', { timeout }, async () => {
    const { bounded, anywhere, right } = requestsTo(service.server.port);
    const before = await openDescriptors();
    const statuses = new Map<string, number>();
    await inParallel(inputCount(10_000), 16, async (next) => {
      const last = anywhere(next);
      let unseen: readonly Buffer[] = several(9, () => bounded(next));
      const inputs = unseen.length + 1;
      for (let isWhole = false; !isWhole; )
        ({ unseen, isWhole } = await answeredInTurn(unseen, right, last, statuses));
      return inputs;
    });
    console.log(inWords(statuses));
    expect(statuses.size).toBeGreaterThan(8);
    await expectUnharmed();
    await expect.poll(openDescriptors, { timeout: 20_000 }).toBeLessThanOrEqual(before + 5);
  });

  it('as messages of a WebSocket ends in an answer or a close with a code of the protocol', {
    timeout,
  }, async () => {
    const message = (type: string, more: object) => Buffer.from(JSON.stringify({ type, ...more }));
    const subscribe = (id: string, query: Buffer, more: object = {}) =>
      message('subscribe', { id, payload: { query: `${query}`, ...more } });
    const types = ['ping', 'pong', 'complete', 'connection_init', 'next', 'error'];
    const messages = [
      ...documents.map((document) => subscribe('1', document)),
      ...types.map((type) => message(type, { id: '1', payload: {} })),
    ];
    const frames = messages.map((each) => frame(each));
    const init = frame(message('connection_init', {}));
    const right = frame(subscribe('right', Buffer.from('{ viewer { role } }')));
    const rightly = '{"id":"right","type":"next","payload":{"data":{"viewer":{"role":"ADMIN"}}}}';
    /** A true message of a damaged part, which leaves the socket open; the id if it has an answer. */
    const draw = (next: Random, id: string): { readonly bytes: Buffer; readonly id?: string } => {
      const part = mutated(documents, marks, next);
      const kind = next(8);
      if (kind === 0) return { bytes: fragments(subscribe(id, part), next(100)), id };
      if (kind === 1) {
        const more = { variables: { id: `${part}` }, operationName: next(2) === 0 ? 'A' : null };
        return { bytes: frame(subscribe(id, documents[0] ?? part, more)), id };
      }
      if (kind === 2) return { bytes: frame(message('ping', { payload: { part: `${part}` } })) };
      if (kind === 3) return { bytes: frame(message('complete', { id: `x${part}` })) };
      if (kind === 4) return { bytes: frame(part.subarray(0, 125), next(2) === 0 ? 9 : 10) };
      return { bytes: frame(subscribe(id, part)), id };
    };
    const before = await openDescriptors();
    // As many at a time as a socket may have under way, and one that is right.
    const atOnce = 49;
    const codes = new Map<number | undefined, number>();
    await inParallel(inputCount(10_000), 4, async (next, number) => {
      const socket = await openRawWebSocket(service.server.port, bearer('ann'));
      const fail = (what: string) =>
        expect.fail(`session ${number}, seed ${seed}: ${what}; ${socket.texts.join('\n')}`);
      socket.send(init);
      if (!(await socket.until(1, /connection_ack/))) fail('not let in');
      const drawn = Array.from({ length: atOnce }, (_, id) => draw(next, `m${id}`));
      const due = new Set(['right', ...drawn.flatMap(({ id }) => id ?? [])]);
      socket.send(Buffer.concat([...drawn.map(({ bytes }) => bytes), right]));
      const end = /^\{"id":"([^"]*)","type":"(?:error|complete)"/;
      if (!(await socket.until(due.size, end))) fail(`${due.size} answers were due`);
      for (const text of socket.texts) {
        const [, id] = end.exec(text) ?? [];
        if (id !== undefined && !due.delete(id)) fail(`answered ${id} twice`);
      }
      if (due.size > 0 || !socket.texts.includes(rightly)) fail('an answer of its own to each');
      // The last one is damaged itself, as a message or down to the bits of its frame.
      socket.send(
        number % 2 === 0 ? frame(mutated(messages, marks, next)) : mutated(frames, marks, next),
      );
      count(codes, await socket.end());
      if (leak.test(socket.texts.join('\n'))) fail('says too much');
      return atOnce + 1;
    });
    console.log(`closed with ${inWords(codes)}`);
    for (const code of codes.keys())
      expect([undefined, 1000, 1002, 1003, 1007, 1009, 4400, 4403, 4409, 4429]).toContain(code);
    await expect.poll(() => service.fleet.following + service.fleet.watching).toBe(0);
    await expectUnharmed();
    await expect.poll(openDescriptors, { timeout: 20_000 }).toBeLessThanOrEqual(before + 5);
  });
});

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
