import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { csrfHeader } from './credential.ts';
import type { Door } from './door.ts';
import { refuseOrigin } from './door.ts';
import { send } from './respond.ts';

/**
 * GraphiQL, from the package alone: the page loads nothing from anywhere else. Its script and style
 * come as files of ours under names that change with their content, so the policy needs no inline
 * script, and a browser fetches the nine megabytes once.
 */
interface Assets {
  readonly page: string;
  readonly files: ReadonlyMap<string, { readonly type: string; readonly zipped: Buffer }>;
}

const firstQuery = `# Queries and mutations go over HTTP, subscriptions over a WebSocket. Ctrl-Enter runs.
{
  viewer { role member { login } }
  tmuxServers {
    complete
    nodes { member { login } socketPath status version sessions { name windows { name } } }
  }
}
`;

let assets: Promise<Assets> | undefined;

export async function answerGraphiQL(
  door: Door,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const foreign = refuseOrigin(door, request);
  if (foreign !== undefined || (request.method !== 'GET' && request.method !== 'HEAD')) {
    send(response, foreign?.status ?? 405, `${foreign?.message ?? 'Use GET.'}\n`, {
      'content-type': 'text/plain; charset=utf-8',
      ...(foreign === undefined ? { allow: 'GET' } : {}),
    });
    return;
  }
  assets ??= makeAssets();
  const { page, files } = await assets;
  if (path === '/graphiql') {
    send(response, 200, page, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy(request.headers.host ?? ''),
    });
    return;
  }
  const file = files.get(path);
  if (file === undefined) {
    send(response, 404, 'There is no such file.\n', {
      'content-type': 'text/plain; charset=utf-8',
    });
    return;
  }
  send(response, 200, file.zipped, {
    'content-type': file.type,
    'content-encoding': 'gzip',
    'cache-control': 'public, max-age=31536000, immutable',
  });
}

const zip = promisify(gzip);

async function makeAssets(): Promise<Assets> {
  const { renderGraphiQL } = await import('@graphql-yoga/render-graphiql');
  const whole = renderGraphiQL({
    title: 'muxwarden',
    endpoint: '/graphql',
    credentials: 'same-origin',
    subscriptionsProtocol: 'WS',
    additionalHeaders: { [csrfHeader]: '1' },
    defaultQuery: firstQuery,
  });
  const style = between(whole, '<style>', '</style>');
  const script = between(whole, '<script>', '</script>');
  const icon = /<link rel="icon" href="(data:[^"]+)"/.exec(whole)?.[1] ?? 'data:,';
  const css = await file('css', 'text/css; charset=utf-8', style);
  const js = await file('js', 'text/javascript; charset=utf-8', script);
  return {
    page: `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>muxwarden</title><link rel="icon" href="${icon}"><link rel="stylesheet" href="${css.path}"></head><body id="body" class="no-focus-outline"><noscript>GraphiQL needs scripts.</noscript><div id="root"></div><script src="${js.path}"></script></body></html>`,
    files: new Map([
      [css.path, css],
      [js.path, js],
    ]),
  };
}

async function file(extension: string, type: string, content: string) {
  const name = createHash('sha256').update(content).digest('hex').slice(0, 16);
  return { path: `/graphiql/${name}.${extension}`, type, zipped: await zip(content) };
}

/** From the first opening to the last closing tag: the script itself holds text that looks like tags. */
function between(page: string, open: string, close: string): string {
  const from = page.indexOf(open);
  const to = open === '<style>' ? page.indexOf(close, from) : page.lastIndexOf(close);
  if (from < 0 || to < from) throw new Error('the GraphiQL package has another page than before');
  return page.slice(from + open.length, to);
}

/** The editor writes its own style elements and starts its workers from blobs; no more than that. */
function policy(host: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    'worker-src blob:',
    `connect-src 'self' ws://${host} wss://${host}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}
