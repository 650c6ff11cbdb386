import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** Headers that every answer has: no page of another site can frame, sniff or embed it. */
const always = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'x-frame-options': 'DENY',
} as const;

/** Pages bring their own policy; an answer of data may load nothing at all. */
const nothing = "default-src 'none'; frame-ancestors 'none'";

const ofData = {
  'content-security-policy': nothing,
  'cache-control': 'no-store',
  ...always,
} as const;

export function head(response: ServerResponse, status: number, headers: OutgoingHttpHeaders): void {
  response.writeHead(status, { ...ofData, ...headers });
}

export function send(
  response: ServerResponse,
  status: number,
  body: string | Buffer,
  headers: OutgoingHttpHeaders,
): void {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  head(response, status, { 'content-length': String(bytes.length), ...headers });
  response.end(response.req.method === 'HEAD' ? undefined : bytes);
}

/** What is sent again and again: the bytes, and names and values of its head in turn. */
export interface ReadyAnswer {
  readonly head: readonly string[];
  readonly body: Buffer;
}

export function readyAnswer(contentType: string, body: Buffer): ReadyAnswer {
  const length = { 'content-length': String(body.length) };
  return { head: inTurn({ ...ofData, ...length, 'content-type': contentType }), body };
}

export function sendReady(
  response: ServerResponse,
  { head, body }: ReadyAnswer,
  headers: Readonly<Record<string, string>>,
): void {
  response.writeHead(200, inTurn(headers, head.slice()));
  response.end(body);
}

function inTurn(headers: Readonly<Record<string, string>>, after: string[] = []): string[] {
  for (const name in headers) after.push(name, headers[name] ?? '');
  return after;
}

export function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): void {
  send(response, status, JSON.stringify(value), {
    'content-type': 'application/json; charset=utf-8',
    ...headers,
  });
}
