import { createServer } from 'node:http';

/**
 * The limit for an HTTP answer: a bare Node server that reads the request's body and returns bytes
 * that it was given before. Started as a process of its own; PUT sets the bytes, POST returns them.
 */
let answer = Buffer.alloc(0);
const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    if (request.method === 'PUT') answer = Buffer.concat(parts);
    response.writeHead(200, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': request.method === 'PUT' ? 0 : answer.length,
    });
    response.end(request.method === 'PUT' ? undefined : answer);
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  console.log(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`);
});
process.on('SIGTERM', () => process.exit(0));
