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

export function head(response: ServerResponse, status: number, headers: OutgoingHttpHeaders): void {
  response.writeHead(status, {
    'content-security-policy': nothing,
    'cache-control': 'no-store',
    ...always,
    ...headers,
  });
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
