import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Logger } from '../log.ts';
import { announced, PostedRequest } from './body.ts';
import { type Authenticator, cookieName } from './credential.ts';
import { openDocuments } from './documents.ts';
import { type Door, refuseOrigin } from './door.ts';
import { answerGraphiQL } from './graphiql.ts';
import { answerGraphQL } from './graphql-http.ts';
import { answerHealth, answerReady, type Readiness } from './health.ts';
import { KeptAnswers } from './kept-answers.ts';
import { type Metrics, metrics } from './metrics.ts';
import { origins, trustedProxies } from './origin.ts';
import { RecentlyUsed } from './recently-used.ts';
import type { Parts } from './request-context.ts';
import { send, sendJson } from './respond.ts';
import { SharedResults } from './shared-results.ts';
import { answerSignIn } from './sign-in.ts';
import { SubscriptionCount } from './subscription-count.ts';
import { Turns } from './turns.ts';
import { webSockets } from './websocket.ts';
import { graphqlYoga } from './yoga.ts';

export interface ServerOptions extends Parts {
  readonly authenticator: Authenticator;
  readonly readiness: Readiness;
  readonly logger: Logger;
}

export interface RunningServer {
  /** Where people reach it, without a final slash. */
  readonly url: string;
  readonly port: number;
  /** Streams end with a reason, what runs finishes, sockets close with 1001; after `graceMs` all is cut. */
  stop(graceMs: number): Promise<void>;
}

/** Listens. @throws ListenError that says what to do */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { config, logger } = options;
  const documents = await openDocuments(config);
  const drain = new AbortController();
  const subscriptions = new SubscriptionCount(config.maxSubscriptionsPerActor);
  const shared = new SharedResults();
  const turns = new Turns();
  const server = createServer({
    headersTimeout: 10_000,
    requestTimeout: 30_000,
    // The timeouts are looked at this often; by default twice a minute.
    connectionsCheckingInterval: 1_000,
    // Whatever else to upgrade to may be ignored, and is: the request is answered as it is, and in its
    // turn, for a connection that is a socket already has no more place for answers to earlier requests.
    shouldUpgradeCallback: (request) =>
      request.headers.upgrade?.toLowerCase() === 'websocket' &&
      pathOf(request) === '/graphql' &&
      !turns.areDue(request.socket),
    keepAliveTimeout: 65_000,
    maxHeaderSize: 16_384,
    IncomingMessage: PostedRequest,
  });
  const port = await listen(server, config.host, config.port);
  const where = origins(config, port);
  const door: Door = {
    parts: options,
    yoga: graphqlYoga(config.maxTokens, subscriptions, shared, logger),
    authenticator: options.authenticator,
    origins: where,
    cookie: cookieName(config, where.publicUrl),
    trusted: trustedProxies(config),
    subscriptions,
    documents,
    kept: new KeptAnswers(),
    parted: new RecentlyUsed(32),
    draining: drain.signal,
    logger,
  };
  const sockets = webSockets(door);
  const figures = metrics(options, {
    subscriptions: () => subscriptions.total,
    sockets: () => sockets.size,
    executions: () => shared.executions,
  });
  let running = 0;
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    const path = pathOf(request);
    const route = routeOf(path);
    running += 1;
    turns.begin(response);
    response.on('close', () => {
      running -= 1;
      if (response.headersSent) figures.answered(route ?? 'other', response.statusCode);
    });
    const answered =
      route === '/graphql'
        ? answerGraphQL(door, request, response)
        : answer(door, options.readiness, figures, request, response, path);
    answered.catch((err) => {
      logger.error({ err }, 'a request failed');
      response.destroy();
    });
  };
  server.on('request', serve);
  // Whoever asks first whether to send a body too large is answered without it.
  server.on('checkContinue', (request, response) => {
    // Node writes what it holds back for its turn between the head and the body of the answer.
    const isInTurn = !turns.areDue(request.socket);
    if (isInTurn && !(announced(request) > config.maxBodyBytes)) response.writeContinue();
    serve(request, response);
  });
  server.on('clientError', (error, socket) => turns.break(socket, error));
  server.on('upgrade', (request, socket, head) => sockets.upgrade(request, socket, head));
  return {
    url: where.publicUrl,
    port,
    async stop(graceMs) {
      drain.abort();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const end = performance.now() + graceMs;
      while ((running > 0 || subscriptions.total > 0) && performance.now() < end) {
        server.closeIdleConnections();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      await sockets.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The address can't be listened on. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

function listen(
  server: ReturnType<typeof createServer>,
  host: string,
  port: number,
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const what =
        cause.code === 'EADDRINUSE'
          ? 'somebody listens there already. Set MUXWARDEN_PORT to another one, or to 0 for any free one'
          : cause.code === 'EACCES'
            ? 'it is not allowed. Ports below 1024 are for root: set MUXWARDEN_PORT'
            : cause.code === 'ENOTFOUND' || cause.code === 'EAI_AGAIN'
              ? 'no such host is known. Set MUXWARDEN_HOST to an address of this machine'
              : `${cause.message}. Set MUXWARDEN_HOST and MUXWARDEN_PORT`;
      reject(new ListenError(`Can't listen on ${host}:${port}: ${what}.`, { cause }));
    });
    server.listen(port, host, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}

async function answer(
  door: Door,
  readiness: Readiness,
  figures: Metrics,
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
): Promise<void> {
  const route = routeOf(path);
  switch (route) {
    case '/graphiql':
      return await answerGraphiQL(door, path, request, response);
    case '/sign-in':
      return await answerSignIn(door, request, response);
  }
  const foreign = refuseOrigin(door, request);
  if (foreign !== undefined) return sendJson(response, foreign.status, { error: foreign.message });
  if (route !== undefined && request.method !== 'GET' && request.method !== 'HEAD')
    return sendJson(response, 405, { error: 'Use GET.' }, { allow: 'GET' });
  switch (route) {
    case '/health':
      return answerHealth(request, response);
    case '/ready':
      return await answerReady(readiness, door.draining, response);
    case '/metrics':
      return send(response, 200, await figures.text(), { 'content-type': figures.contentType });
    case '/':
      return send(response, 302, '', { location: '/graphiql' });
  }
  sendJson(response, 404, { error: 'There is nothing here. The API is at POST /graphql.' });
}

function routeOf(path: string): string | undefined {
  const route = path.startsWith('/graphiql/') ? '/graphiql' : path;
  return routes.has(route) ? route : undefined;
}

const routes = new Set(['/', '/graphql', '/graphiql', '/sign-in', '/health', '/ready', '/metrics']);

function pathOf({ url = '/' }: IncomingMessage): string {
  if (routes.has(url)) return url;
  const path = url.split('?', 1)[0] ?? '/';
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}
