import { createServer } from 'node:http';

/**
 * The limit for an HTTP answer: a bare Node server that reads the request's body and returns an answer
 * that it was given before. PUT sets it; POST returns it, from a string as `response.end(text)` is
 * mostly called, and at /bytes from bytes that are ready to be sent.
 */
let bytes = Buffer.alloc(0);
let text = '';
const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    response.setHeader('content-type', 'application/json; charset=utf-8');
    if (request.method === 'PUT') {
      bytes = Buffer.concat(parts);
      text = bytes.toString();
      response.end();
    } else response.end(request.url === '/bytes' ? bytes : text);
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  console.log(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`);
});
process.on('SIGTERM', () => process.exit(0));
