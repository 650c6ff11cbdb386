import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { WebSocket } from 'ws';
import { systemClock } from '../../src/concurrency/clock.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import type { PaneRef } from '../../src/tmux/model.ts';
import { Epochs } from '../../src/tmux/output/output-cursor.ts';
import { PaneLog } from '../../src/tmux/output/pane-log.ts';
import type { PaneOutputEvent } from '../../src/tmux/pane-events.ts';
import { bootId, listing, pathHex, SyntheticFleet, server, session } from './synthetic-fleet.ts';
import { startService } from './synthetic-service.ts';

/**
 * A process with the server, a pane that pours so many MiB, and one who reads it all over WebSocket or SSE
 * (argv). Prints the most bytes of buffers that it held at a time, whoever had not collected them yet.
 */
const [transport, mib] = [process.argv[2], Number(process.argv[3])];
const piece = Buffer.alloc(65_536, 'a line of it all\r\n');
let most = 0;

class PouringFleet extends SyntheticFleet {
  override async *output(): AsyncGenerator<PaneOutputEvent> {
    const log = new PaneLog(0, 1 << 20, new Epochs(), systemClock);
    for (let from = 0; from < mib << 20; from += piece.length) {
      log.append(piece);
      log.flush();
      most = Math.max(most, process.memoryUsage().arrayBuffers);
      yield log.chunk(from, from + piece.length);
    }
    yield {
      ...{ kind: 'closed', cursor: log.bytes.cursor(log.bytes.end), reason: 'EXITED' },
      ...{ exitStatus: 0, exitSignal: null },
    };
  }
}

const ref: PaneRef = {
  ...{ memberId: '', pathHex: pathHex('/tmp/tmux-1001/default-1') },
  ...{ generation: `${bootId}:4001:100001`, pane: 0 },
};
await using service = await startService({}, new PouringFleet());
const { id } = service.accounts.add('ann', 'ADMIN');
service.fleet.set(listing(id, [server(id, 1, { sessions: [session(0)] })]));
const headers = { authorization: 'Bearer mw_ann' };
const pane = encodeId({ type: 'TmuxPane', ref: { ...ref, memberId: id } });
const query = `subscription { paneOutput(paneId: "${pane}") { ... on PaneChunk { text } ... on PaneClosed { closeReason } } }`;
let read = 0;

if (transport === 'SSE') {
  const agent = new Agent();
  const asked = request(`${service.url}/graphql`, {
    ...{ agent, method: 'POST' },
    headers: { ...headers, accept: 'text/event-stream', 'content-type': 'application/json' },
  });
  asked.end(JSON.stringify({ query }));
  const [response] = await once(asked, 'response');
  response.on('data', (bytes: Buffer) => {
    read += bytes.length;
  });
  await once(response, 'end');
  agent.destroy();
} else {
  const socket = new WebSocket(
    `${service.url.replace('http', 'ws')}/graphql`,
    'graphql-transport-ws',
    { headers },
  );
  socket.on('open', () => socket.send('{"type":"connection_init"}'));
  const complete = Promise.withResolvers<void>();
  socket.on('message', (data: Buffer) => {
    read += data.length;
    if (data.includes('"connection_ack"'))
      socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query } }));
    else if (data.includes('"complete"')) complete.resolve();
  });
  await complete.promise;
  socket.close();
}
console.log(JSON.stringify({ read, most }));
