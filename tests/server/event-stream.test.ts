import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { ExecutionResult } from 'graphql';
import { expect, it } from 'vitest';
import { eventStream } from '../../src/server/event-stream.ts';

const neverFull = (): never => {
  throw new Error('the connection takes all of it');
};

it('an event is one line for every reader, whatever ends a line for it, and unchanged as JSON', async () => {
  const text = 'a\u2028event: complete\u2029data: forged\u0085é\n\r\v\f\u001c\u{1f642}z';
  const server = createServer((_, response) => {
    const results = (async function* () {
      yield { data: { text } };
    })();
    void eventStream(response, results, { 'content-type': 'text/event-stream' }, neverFull);
  }).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const body = await (await fetch(`http://127.0.0.1:${port}`)).text();
    const lines = body.split(/\r\n|[\n\r\v\f\u001c-\u001e\u0085\u2028\u2029]/);
    expect(lines.map((line) => line.slice(0, 6))).toEqual(
      [':', '', 'event: next', 'data: {', '', 'event: complete', 'data:', '', ''].map((line) =>
        line.slice(0, 6),
      ),
    );
    expect(JSON.parse(lines[3]?.slice(6) ?? '')).toEqual({ data: { text } });
  } finally {
    server.close();
  }
});

/** All that a connection is answered, until the server closes it; each is said after the answer of the one before. */
async function answerTo(listener: RequestListener, ...said: string[]): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const socket = connect(port, '127.0.0.1');
    const say = () => socket.write(said.shift() ?? '');
    say();
    let text = '';
    for await (const part of socket) {
      text += part;
      if (text.endsWith(end) && said.length > 0) say();
    }
    return text;
  } finally {
    server.close();
  }
}

async function* counted(): AsyncGenerator<ExecutionResult, void> {
  for (let n = 0; n < 3; n++) yield { data: { n } };
}

const [next, last] = ['keep-alive', 'close'].map(
  (connection) => `GET / HTTP/1.1\r\nHost: h\r\nConnection: ${connection}\r\n\r\n`,
) as [string, string];
const end = '\r\n0\r\n\r\n';

it('where the client knows no chunks there are none', async () => {
  const answer = await answerTo((_, response) => {
    void eventStream(response, counted(), {}, neverFull);
  }, 'GET / HTTP/1.0\r\n\r\n');
  const [, body] = answer.split('\r\n\r\n');
  const events = [0, 1, 2].map((n) => `event: next\ndata: {"data":{"n":${n}}}\n\n`);
  expect(body).toBe(`:\n\n${events.join('')}event: complete\ndata:\n\n`);
});

it.each([
  ['one after the other', [...Array.from({ length: 9 }, () => next), last]],
  ['all at once', [next.repeat(9) + last]],
])(
  'streams asked for %s on one connection come whole, and leave nothing on it',
  async (_, said) => {
    const listening = new Set<number>();
    const listener: RequestListener = ({ socket }, response) => {
      void eventStream(response, counted(), {}, neverFull).then(() =>
        listening.add(socket.listenerCount('drain') + socket.listenerCount('close')),
      );
    };
    const answer = await answerTo(listener, ...said);
    const bodies = answer.split(/HTTP\/1.1 200 OK\r\n/).slice(1);
    expect(bodies).toHaveLength(10);
    for (const body of bodies) {
      expect(body.endsWith(end)).toBe(true);
      expect(body.match(/"n":\d/g)).toEqual(['"n":0', '"n":1', '"n":2']);
    }
    expect(listening.size).toBe(1);
  },
);
