import { mutated, type Random } from './mutations.ts';

const bytesOf = (texts: readonly string[]) => texts.map((text) => Buffer.from(text, 'latin1'));

export const documents = bytesOf([
  'query A($id: ID!) { node(id: $id) { ... on TmuxPane { title capture { __typename } } } }',
  'mutation { restartPane(input: {paneId: "x", idempotencyKey: "k"}) { __typename } }',
  '{ members(first: 2, filter: {listing: [FRESH]}) { nodes { login tmuxServers { id } } } }',
  '{ a: __typename ...F @include(if: true) } fragment F on Query { viewer { role } }',
]);
export const marks = bytesOf([
  ...['\0', '\xff', '"', '{', '}', '(', ':', '...', '@', '$', '\\u'],
  '9'.repeat(30),
]);
const bodies = documents.map((query) =>
  Buffer.from(JSON.stringify({ query: `${query}`, variables: { id: 'x' } })),
);
const viewer = Buffer.from('{"query":"{ viewer { role } }"}');

interface Request {
  readonly method: string;
  readonly target: string;
  readonly fields: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** What a request to the service on that port is made of, whole and damaged. */
export function requestsTo(port: number) {
  const common = { Host: `127.0.0.1:${port}`, Authorization: 'Bearer mw_ann' };
  const posted = { ...common, 'Content-Type': 'application/json' };
  const form = { ...common, 'Content-Type': 'application/x-www-form-urlencoded' };
  const post = (body: Buffer, more: object = {}): Request => ({
    method: 'POST',
    target: '/graphql',
    fields: { ...posted, ...more },
    body,
  });
  const get = (target: string, more: object = {}): Request => ({
    method: 'GET',
    target,
    fields: { ...common, ...more },
  });
  const origin = { Origin: `http://127.0.0.1:${port}` };
  const bases: readonly Request[] = [
    post(viewer, { Accept: 'application/graphql-response+json;q=0.5, */*' }),
    post(viewer, { ...origin, Cookie: 'a=b; muxwarden=x', 'X-Muxwarden-Csrf': '1' }),
    post(viewer, { 'X-Forwarded-For': '10.0.0.1, ::1', 'User-Agent': 'curl/8.14.1' }),
    ...bodies.map((body) => post(body)),
    get('/health', { Accept: '*/*', 'X-Forwarded-Host': 'a.example' }),
    get('/ready', { 'If-None-Match': '"x"', 'Keep-Alive': 'timeout=5' }),
    get('/graphiql/0.js?query=%7Bviewer%7D', { Cookie: 'muxwarden=x; __Host-muxwarden=y' }),
    get('/sign-in?a=b', { 'Accept-Language': 'en;q=0.9' }),
    {
      ...post(Buffer.from('token=mw_x%20&a=b'), origin),
      target: '/sign-in',
      fields: { ...form, ...origin },
    },
    {
      ...get('/graphql', { ...origin, 'Access-Control-Request-Method': 'POST' }),
      method: 'OPTIONS',
    },
  ];
  const upgrade = get('/graphql', {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': `${'A'.repeat(22)}==`,
    'Sec-WebSocket-Protocol': 'graphql-transport-ws',
  });
  const whole = [...bases, upgrade].map(bytesIn);
  const forms = bases.flatMap(({ body }) => body ?? []);
  return {
    /** It has an answer of its own, which no other has. */
    right: bytesIn(post(Buffer.from('{"query":"{ right: viewer { role } }"}'))),

    /** A body of JSON, damaged. */
    body: (next: Random) => bytesIn(post(mutated(bodies, marks, next))),

    /**
     * Damaged where its bounds stay what they are, in its target, in the value of a field or in its
     * body: it is one request to whoever reads it, and has one answer.
     */
    bounded(next: Random): Buffer {
      const { method, target, fields, body } = bases[next(bases.length)] ?? upgrade;
      const place = next(4);
      if (place === 0) {
        const damaged = mutated([Buffer.from(target.slice(1), 'latin1')], targets, next);
        return bytesIn({ method, target: `/${shown(damaged, 0x21, 0x7e)}`, fields, body });
      }
      if (place === 1 && body !== undefined)
        return bytesIn({ method, target, fields, body: mutated(forms, marks, next) });
      const names = Object.keys(fields);
      const drawn = names[next(names.length)] ?? '';
      const name = ending.has(drawn) && next(4) > 0 ? 'Authorization' : drawn;
      const damaged = mutated([Buffer.from(fields[name] ?? '', 'latin1')], values, next);
      const value = shown(damaged, 0x20, 0xff);
      return bytesIn({ method, target, fields: { ...fields, [name]: value }, body });
    },

    /** Damaged anywhere. */
    anywhere: (next: Random) => mutated(whole, words, next),
  };
}

/** Refused for one of these, a request ends its connection, and those behind it are not seen: fewer of them. */
const ending = new Set(['Host', 'Content-Type', 'Origin']);
const targets = bytesOf([
  ...[
    '/',
    '//',
    '?',
    '#',
    '%',
    '%00',
    '%2e%2e/',
    '..',
    '&',
    '=',
    'graphql',
    'graphiql/',
    'metrics',
  ],
  ...['sign-in', 'http://a.example', '*', '\\', ';', 'a'.repeat(2_000)],
]);
const values = bytesOf([
  ...[
    '',
    ',',
    ';',
    '"',
    '=',
    '*/*',
    'q=2',
    'Bearer ',
    'Basic YTpi',
    'mw_',
    'null',
    '\xff',
    '\t',
    '%',
  ],
  ...[
    'application/json',
    'charset=utf-16',
    'https://a.example',
    '127.0.0.1',
    '[::1]:1',
    '@',
    '__proto__',
  ],
  ...['9'.repeat(30), 'a'.repeat(2_000)],
]);
const words = bytesOf([
  ...['\r\n', '\r\n\r\n', ':', ' ', '\0', '\xff', '"', '{', '}', 'chunked', '0\r\n\r\n'],
  ...['Transfer-Encoding: chunked\r\n', 'Expect: 100-continue\r\n', 'Upgrade: websocket\r\n'],
  ...['Connection: keep-alive\r\n', 'GET ', 'HTTP/1.0', '/health', '/sign-in', '/metrics'],
  ...['Content-Length: 0\r\n', `X: ${'a'.repeat(20_000)}\r\n`, '9'.repeat(30)],
]);

function bytesIn({ method, target, fields, body }: Request): Buffer {
  let text = `${method} ${target} HTTP/1.1\r\n`;
  for (const name in fields) text += `${name}: ${fields[name]}\r\n`;
  if (body !== undefined) text += `Content-Length: ${body.length}\r\n`;
  return Buffer.from(`${text}\r\n${body?.toString('latin1') ?? ''}`, 'latin1');
}

/** As text of bytes that the parser takes for a part of what it reads, and never for its end. */
function shown(bytes: Buffer, least: number, most: number): string {
  for (const [at, byte] of bytes.entries())
    if (byte < least || byte > most || byte === 0x7f) bytes[at] = 0x3f;
  return bytes.toString('latin1');
}
