import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

/**
 * The limit for streams: a bare `ws` server that sends one ready message to every socket, every so many
 * milliseconds. argv: the length of the message, the milliseconds.
 */
const [length = 0, everyMs = 10] = process.argv.slice(2).map(Number);
const server = createServer();
const sockets = new WebSocketServer({ server, perMessageDeflate: false });
const filler = 'x'.repeat(length);
let sent = 0;
let due = performance.now();
setInterval(() => {
  const now = performance.now();
  // Who was stopped goes on from now.
  if (due < now - 200) due = now;
  for (; due <= now; due += everyMs) {
    const stamp = Math.round((performance.timeOrigin + performance.now()) * 1_000);
    const message = `${`T${stamp}#${sent++}:${filler}`.slice(0, length - 2)}\\n`;
    for (const socket of sockets.clients) {
      // As a server does that bounds what it holds for those who do not read.
      if (socket.bufferedAmount < 1 << 20) socket.send(message);
    }
  }
}, 1);
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  console.log(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`);
});
process.on('SIGTERM', () => process.exit(0));
