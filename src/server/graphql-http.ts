import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Viewer } from '../auth/viewer.ts';
import { escapeText } from '../escape.ts';
import { jsonText } from '../json-text.ts';
import { watchAuthority } from '../resolvers/authority-watch.ts';
import type { RequestErrorCode } from '../resolvers/request-error.ts';
import { asksToSignIn, mostAnonymousBytes, nobody } from './anonymous.ts';
import { BodyTooLargeError, readBody } from './body.ts';
import { csrfHeader } from './credential.ts';
import type { Documents } from './documents.ts';
import {
  admit,
  clientAddress,
  type Door,
  isRefusal,
  type Refusal,
  refuseOrigin,
  userAgentOf,
} from './door.ts';
import { maskError, refusalBody } from './errors.ts';
import { eventStream } from './event-stream.ts';
import type { KeptAnswer } from './kept-answers.ts';
import { PartedAnswer } from './parted-answer.ts';
import { Look, Reads } from './reads.ts';
import { type Arrival, requestContext } from './request-context.ts';
import { head, readyAnswer, send, sendReady } from './respond.ts';
import { sessionOf } from './session-cookie.ts';
import type { Results } from './yoga.ts';

/**
 * POST /graphql with application/json: the one way in over HTTP, for queries, mutations and, with
 * `Accept: text/event-stream`, subscriptions. Everything else is refused before it is parsed, and
 * every refusal is a GraphQL answer too.
 */
export async function answerGraphQL(
  door: Door,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const requestId = randomUUID();
  const { method, headers } = request;
  const answer: Headers = { 'x-request-id': requestId };
  const refuse = (status: number, code: RequestErrorCode, message: string, more: Headers = {}) => {
    // Not read to its end, so the connection can't be used for another request.
    if (!request.complete) answer.connection = 'close';
    send(response, status, refusalBody(code, message, requestId), {
      'content-type': 'application/json; charset=utf-8',
      ...answer,
      ...more,
    });
  };
  const foreign = refuseOrigin(door, request);
  if (foreign !== undefined) return refuse(foreign.status, foreign.code, foreign.message);
  if (headers.origin !== undefined && door.origins.isForeign(headers.origin)) {
    answer['access-control-allow-origin'] = headers.origin;
    answer['access-control-expose-headers'] = 'x-request-id';
    answer.vary = 'Origin';
  }
  if (method === 'OPTIONS' && headers['access-control-request-method'] !== undefined)
    return preflight(response, answer);
  if (method !== 'POST')
    return refuse(405, 'BAD_USER_INPUT', 'Use POST with application/json.', { allow: 'POST' });
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined)
    return refuse(400, 'BAD_USER_INPUT', 'The body is missing: {"query": "…"}.');
  if (!isJson(headers['content-type']))
    return refuse(415, 'BAD_USER_INPUT', 'The content type is application/json, in UTF-8.');
  if (door.draining.aborted)
    return refuse(503, 'RATE_LIMITED', 'The service is stopping. Try again in a moment.', {
      'retry-after': '1',
    });
  const admitting = admit(door, request);
  const admitted = admitting instanceof Promise ? await admitting : admitting;
  const stranger = isRefusal(admitted) ? admitted : undefined;
  const refuseCaller = ({ status, code, message }: Refusal) =>
    refuse(status, code, message, {
      ...(status === 401 ? { 'www-authenticate': 'Bearer realm="muxwarden"' } : {}),
    });
  if (stranger?.status === 403) return refuseCaller(stranger);
  const { maxBodyBytes, maxTokens } = door.parts.config;
  let bytes: Buffer;
  try {
    const most = stranger === undefined ? maxBodyBytes : Math.min(maxBodyBytes, mostAnonymousBytes);
    bytes = await readBody(request, most);
  } catch (error) {
    if (!(error instanceof BodyTooLargeError)) return;
    if (stranger !== undefined) return refuseCaller(stranger);
    return refuse(413, 'BAD_USER_INPUT', `The body has at most ${maxBodyBytes} bytes.`);
  }
  if (stranger !== undefined) {
    const asked = requestOf(bytes.toString(), door.documents);
    if (typeof asked === 'string' || !asksToSignIn(asked.query, maxTokens))
      return refuseCaller(stranger);
  }
  const viewer = isRefusal(admitted) ? nobody : admitted;
  try {
    const accept = request.headers.accept ?? '*/*';
    const key = door.kept.keyOf(viewer, accept, bytes);
    const known = door.kept.atOnce(key, door.parts.fleet);
    if (known !== undefined) return sendReady(response, known, answer);
    const look = new Look(door.parts.fleet);
    const kept = await door.kept.get(key, look);
    if (kept !== undefined) return sendReady(response, kept, answer);
    const asked = requestOf(bytes.toString(), door.documents);
    if (typeof asked === 'string') return refuse(400, 'BAD_USER_INPUT', asked);
    const refusal = door.documents.refuse(viewer, asked.query);
    if (refusal !== undefined) return refuse(403, refusal.code, refusal.message);
    const sent = { request, response, viewer, body: asked.body, accept, key, look };
    await run(door, sent, requestId, answer);
  } catch (error) {
    const { message } = maskError(error, requestId, door.logger);
    if (response.headersSent) response.destroy();
    else refuse(500, 'INTERNAL_SERVER_ERROR', message);
  }
}

/** Names and values of headers. */
type Headers = Record<string, string>;

/** An operation of which no answer is kept. */
interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly viewer: Viewer;
  readonly body: string;
  readonly accept: string;
  /** Under which its answer would be kept. */
  readonly key: string;
  readonly look: Look;
}

async function run(
  door: Door,
  { request, response, viewer, body, accept, key, look }: Asked,
  requestId: string,
  answer: Headers,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort();
  });
  if (response.destroyed) gone.abort();
  const session = sessionOf(door, request, viewer, answer);
  const arrival: Arrival = {
    get viewer() {
      return session.viewer;
    },
    requestId,
    address: clientAddress(door, request),
    userAgent: userAgentOf(request),
    signal: gone.signal,
    draining: door.draining,
    cookie: session.cookie,
  };
  const again = await madeInParts(door, key, arrival, look);
  if (again !== undefined) {
    door.kept.keep(key, again);
    return sendReady(response, again, answer);
  }
  const reads = new Reads(door.parts);
  const operation = requestContext(reads.through(door.parts), arrival);
  let stream: Results | undefined;
  const streamed = (results: Results) => {
    stream = results;
  };
  const result = await door.yoga.fetch(
    'http://localhost/graphql',
    { method: 'POST', headers: { accept, 'content-type': 'application/json' }, body },
    { operation, failed: () => reads.spoil(), streamed },
  );
  const contentType = result.headers.get('content-type') ?? 'application/json; charset=utf-8';
  const isEvents = contentType.startsWith('text/event-stream');
  const bytes = Buffer.from(await result.text());
  if (stream !== undefined && isEvents)
    return await eventStream(response, stream, { 'content-type': contentType, ...answer }, () =>
      watchAuthority(operation, gone.signal),
    );
  await stream?.return?.();
  if (result.status === 200 && reads.canBeKept && !isEvents) {
    door.kept.keep(key, { ...readyAnswer(contentType, bytes), reads });
    if (door.parted.get(key) === undefined)
      door.parted.set(key, PartedAnswer.of(body, contentType) ?? null);
  }
  if (bytes.length === 0 && result.status >= 400) {
    const instead =
      stream === undefined
        ? 'accept application/json.'
        : 'a subscription is a stream, so accept text/event-stream, or subscribe over a WebSocket.';
    const said = `This can't be answered as ${accept}: ${instead}`;
    const refusal = refusalBody('BAD_USER_INPUT', escapeText(said), requestId);
    return send(response, result.status, refusal, {
      'content-type': 'application/json',
      ...answer,
    });
  }
  send(response, result.status, bytes, { 'content-type': contentType, ...answer });
}

/** A page of members of which only some changed; undefined where it has to be executed as a whole. */
async function madeInParts(
  { parts, parted }: Door,
  key: string,
  arrival: Arrival,
  look: Look,
): Promise<KeptAnswer | undefined> {
  const plan = parted.get(key) ?? undefined;
  if (plan === undefined) return undefined;
  const reads = new Reads(parts);
  const made = await plan.make(
    reads,
    look,
    (each) => requestContext(each.through(parts, look), arrival),
    () => new Reads(parts),
  );
  return made && { ...readyAnswer(plan.contentType, made), reads };
}

function preflight(response: ServerResponse, answer: Headers): void {
  const allowed = answer['access-control-allow-origin'] !== undefined;
  head(response, 204, {
    ...answer,
    ...(allowed
      ? {
          'access-control-allow-methods': 'POST',
          'access-control-allow-headers': `authorization, content-type, ${csrfHeader}`,
          'access-control-max-age': '600',
        }
      : {}),
  });
  response.end();
}

/** Whether the query itself is right is for GraphQL to say; a `documentId` stands for a trusted one. */
function requestOf(
  body: string,
  documents: Documents,
): { readonly query: string; readonly body: string } | string {
  const { documentId, query, ...rest } = requestBody.safeParse(body).data ?? {};
  if (query !== undefined) return { query, body };
  if (documentId === undefined) return 'The body is one JSON object: {"query": "…"}.';
  const known = documents.byId(documentId);
  if (known === undefined) return 'There is no trusted document of that `documentId`.';
  return { query: known, body: JSON.stringify({ query: known, ...rest }) };
}

const requestBody = jsonText.pipe(
  z.looseObject({ query: z.string().optional(), documentId: z.string().optional() }),
);

function isJson(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true;
  const [type, ...parameters] = (contentType ?? '').toLowerCase().split(';');
  return (
    type?.trim() === 'application/json' &&
    parameters.every((parameter) => /^\s*charset="?utf-8"?\s*$/.test(parameter))
  );
}
