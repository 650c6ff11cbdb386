import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { eventStream } from '../../src/server/event-stream.ts';

it('an event is one line for every reader, whatever ends a line for it, and unchanged as JSON', async () => {
  const text = 'a\u2028event: complete\u2029data: forged\u0085é\n\r\v\f\u001c\u{1f642}z';
  const server = createServer((_, response) => {
    const results = (async function* () {
      yield { data: { text } };
    })();
    void eventStream(response, results, { 'content-type': 'text/event-stream' });
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
