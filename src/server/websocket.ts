import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ExecutionArgs, type ExecutionResult, GraphQLError, getOperationAST } from 'graphql';
import { handleProtocols, makeServer, type Context as SocketContext } from 'graphql-ws';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Authenticated, Viewer } from '../auth/viewer.ts';
import { sleep } from '../concurrency/clock.ts';
import { watchAuthority } from '../resolvers/authority-watch.ts';
import type { Context } from '../resolvers/context.ts';
import { RequestError } from '../resolvers/request-error.ts';
import { authenticate, bearer, type Shown, shown } from './credential.ts';
import { clientAddress, type Door, refuseOrigin, userAgentOf } from './door.ts';
import { operationOf } from './engine.ts';
import { maskError, maskResult } from './errors.ts';
import { Outlet } from './outlet.ts';
import { requestContext } from './request-context.ts';
import { SocketOperations } from './socket-operations.ts';
import { sentOn } from './socket-stream.ts';

/**
 * graphql-transport-ws at /graphql: the same engine, limits, mask and authority as over HTTP.
 *
 *   1. upgrade: Host and Origin are checked before there is a socket; a cookie needs the Origin
 *   2. connection_init: `{ "Authorization": "Bearer mw_…" }`, or the cookie; else close 4403
 *   3. subscribe: any operation; more subscriptions than the limit of one socket close it with 4429
 *   4. the credential ends: streams say so, then close 4403; the service stops: close 1001
 */
export interface WebSockets {
  readonly size: number;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Closes every socket with 1001. */
  close(): Promise<void>;
}

interface Extra {
  readonly socket: WebSocket;
  readonly outlet: Outlet;
  readonly request: IncomingMessage;
  readonly address: string | null;
  /** What the upgrade showed: a key in its header, or a cookie of an origin of ours. */
  readonly credential: Shown | undefined;
  readonly closed: AbortController;
  readonly operations: SocketOperations;
  viewer?: Viewer;
}
type Socket = SocketContext<Record<string, unknown>, Extra>;

/** Long enough for the last words of the streams, far below the second in which all must be over. */
const lastWordsMs = 250;
const closingMs = 500;
const pingMs = 12_000;

const noCookie = new RequestError(
  'BAD_USER_INPUT',
  "`signIn` sets a cookie, which a WebSocket can't. POST it to /graphql, then connect again.",
);

export function webSockets(door: Door): WebSockets {
  const { maxBodyBytes } = door.parts.config;
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: maxBodyBytes,
    perMessageDeflate: false,
    handleProtocols,
  });
  const protocol = graphqlTransport(door);
  return {
    get size() {
      return server.clients.size;
    },
    upgrade(request, socket, head) {
      // A socket error before the handshake is the client's own: there is nobody to tell.
      socket.on('error', () => socket.destroy());
      const refusal = refuseOrigin(door, request);
      const credential = shown(request.headers, door.cookie);
      const noOrigin = credential?.kind === 'cookie' && request.headers.origin === undefined;
      if (refusal !== undefined || noOrigin) return refuse(socket, 403, 'Forbidden');
      if (door.draining.aborted) return refuse(socket, 503, 'Service Unavailable');
      server.handleUpgrade(request, socket, head, (webSocket) => {
        serve(protocol, door, webSocket, {
          socket: webSocket,
          outlet: new Outlet(socket),
          request,
          address: clientAddress(door, request),
          credential,
          closed: new AbortController(),
          operations: new SocketOperations(door.parts.config.maxSubscriptionsPerSocket),
        });
      });
    },
    async close() {
      const open = [...server.clients];
      const gone = open.map(
        (socket) => new Promise<void>((resolve) => socket.once('close', () => resolve())),
      );
      for (const socket of open) socket.close(1001, 'Going away');
      // A client that never answers the close is let go.
      const enough = setTimeout(() => {
        for (const socket of open) socket.terminate();
      }, 1_000);
      await Promise.all(gone);
      clearTimeout(enough);
    },
  };
}

/** One socket: frames to the protocol and back, pings, and one clean end. */
function serve(
  protocol: ReturnType<typeof graphqlTransport>,
  { logger }: Door,
  socket: WebSocket,
  extra: Extra,
): void {
  const failed = (err: unknown) => {
    // A message that only a server sends: the client's fault, and graphql-ws only throws.
    if (err instanceof Error && err.message.startsWith('Unexpected message of type ')) {
      logger.debug({ reason: err.message }, 'a WebSocket client broke the protocol');
      return socket.close(4400, 'Unexpected message');
    }
    logger.error({ err }, 'a WebSocket failed');
    socket.close(4500, 'Internal server error');
  };
  const closed = protocol.opened(
    {
      protocol: socket.protocol,
      send: (text) =>
        new Promise((resolve) => {
          // A send to a socket that is going away fails; its end is told by `close`.
          if (socket.readyState === socket.OPEN) socket.send(text, () => resolve());
          else resolve();
        }),
      close: (code, reason) => socket.close(code, reason),
      onMessage: (listener) => {
        socket.on('message', (data) => {
          listener(String(data)).catch(failed);
        });
      },
    },
    extra,
  );
  let answered = true;
  const ping = setInterval(() => {
    if (!answered) return socket.terminate();
    answered = false;
    socket.ping();
  }, pingMs);
  socket.on('pong', () => {
    answered = true;
  });
  // Oversized or broken frames: `ws` closes with the right code itself.
  socket.on('error', (err) => logger.debug({ err }, 'a WebSocket broke'));
  socket.once('close', (code, reason) => {
    clearInterval(ping);
    extra.closed.abort();
    closed(code, String(reason)).catch((err) => logger.error({ err }, 'a WebSocket ended badly'));
  });
}

function graphqlTransport(door: Door) {
  const { logger, yoga } = door;
  /** How an operation that was let in runs, by its context. */
  const running = new WeakMap<object, ReturnType<typeof yoga.getEnveloped>>();
  return makeServer<Record<string, unknown>, Extra>({
    async onConnect(socket) {
      const viewer = await viewerOf(door, socket);
      if (viewer === undefined) return false;
      socket.extra.viewer = viewer;
      void closeWhenAuthorityEnds(door, socket.extra, viewer);
      return true;
    },

    async onSubscribe(socket, id, payload) {
      const { extra, subscriptions } = socket;
      const operation = operationContext(door, socket);
      if (operation === undefined) return [new GraphQLError('This socket is closing.')];
      const refused = (reason: string) => {
        extra.socket.close(4429, reason);
        return [new GraphQLError(reason)];
      };
      const tooMany = extra.operations.tooMany(subscriptions);
      if (tooMany !== undefined) return refused(tooMany);
      const enveloped = yoga.getEnveloped({
        operation,
        failed: () => undefined,
        streamed: () => undefined,
      });
      try {
        const refusal = door.documents.refuse(operation.viewer, payload.query);
        if (refusal !== undefined) throw refusal;
        const document = enveloped.parse(payload.query);
        const errors: readonly Error[] = enveloped.validate(enveloped.schema, document);
        if (errors.length > 0)
          return errors.map((error) => maskError(error, operation.requestId, logger));
        const { operationName, variables: variableValues } = payload;
        if (getOperationAST(document, operationName)?.operation === 'subscription') {
          const oneTooMany = extra.operations.subscribe(id, subscriptions);
          if (oneTooMany !== undefined) return refused(oneTooMany);
        }
        const contextValue: object = await enveloped.contextFactory();
        running.set(contextValue, enveloped);
        return { schema: enveloped.schema, document, operationName, variableValues, contextValue };
      } catch (error) {
        return [maskError(error, operation.requestId, logger)];
      }
    },

    execute: (args) => envelopedOf(running, args).execute(args),
    subscribe: (args) => envelopedOf(running, args).subscribe(args),

    async onOperation({ subscriptions, extra }, id, _payload, _args, result) {
      if (!isStream(result)) return undefined;
      if (id in subscriptions) return sentOn(extra.socket, extra.outlet, id, result);
      // Unsubscribed while it was being set up: nobody will read it, so it is left here.
      await result.return();
      return undefined;
    },

    onNext: (_socket, _id, _payload, { contextValue }, result) =>
      formatted(maskResult(result, operationOf(contextValue).requestId, logger, 'stream')),
    onError: (_socket, _id, _payload, errors) =>
      errors.map((error) =>
        ('requestId' in error.extensions ? error : maskError(error, randomUUID(), logger)).toJSON(),
      ),
  });
}

/** A context for one operation on a socket; undefined when the socket is not let in (any more). */
function operationContext(door: Door, { extra }: Socket): Context | undefined {
  if (extra.viewer === undefined || extra.closed.signal.aborted) return undefined;
  return requestContext(door.parts, {
    viewer: extra.viewer,
    requestId: randomUUID(),
    address: extra.address,
    userAgent: userAgentOf(extra.request),
    cookie: noCookie,
    signal: extra.closed.signal,
    draining: door.draining,
  });
}

function viewerOf({ authenticator }: Door, { connectionParams, extra }: Socket): Authenticated {
  const said = connectionParams?.Authorization ?? connectionParams?.authorization;
  if (said === undefined) return authenticate(authenticator, extra.credential);
  const key = bearer(said);
  return authenticate(authenticator, key === undefined ? undefined : { kind: 'bearer', key });
}

async function closeWhenAuthorityEnds(door: Door, extra: Extra, viewer: Viewer): Promise<void> {
  const context = requestContext(door.parts, {
    viewer,
    requestId: randomUUID(),
    address: extra.address,
    userAgent: null,
    cookie: noCookie,
    signal: extra.closed.signal,
    draining: door.draining,
  });
  using watch = watchAuthority(context, extra.closed.signal);
  if (!watch.signal.aborted)
    await new Promise((resolve) => {
      watch.signal.addEventListener('abort', resolve, { once: true });
    });
  if (watch.end !== 'withdrawn') return;
  await sleep(lastWordsMs);
  extra.socket.close(4403, 'Your credential has ended');
  // Who reads nothing never answers that.
  await sleep(closingMs);
  extra.socket.terminate();
}

function envelopedOf<Enveloped>(
  running: WeakMap<object, Enveloped>,
  { contextValue }: ExecutionArgs,
): Enveloped {
  const enveloped =
    typeof contextValue === 'object' && contextValue !== null
      ? running.get(contextValue)
      : undefined;
  if (enveloped === undefined) throw new Error('an operation that was not let in');
  return enveloped;
}

function formatted(result: ExecutionResult) {
  const { errors, ...rest } = result;
  return errors === undefined ? rest : { ...rest, errors: errors.map((error) => error.toJSON()) };
}

function isStream(result: object): result is AsyncGenerator<ExecutionResult, void, void> {
  return Symbol.asyncIterator in result;
}

function refuse(socket: Duplex, status: number, reason: string): void {
  socket.end(`HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}
