import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { ListenError } from '../../src/server/server.ts';
import { waitedForCoreMs } from '../support/core-wait.ts';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';
import { eventually } from '../support/tmux-server.ts';

let service: Service;
beforeEach(async () => {
  service = await startService();
  const ann = service.accounts.add('ann', 'ADMIN');
  service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
  return async () => await service[Symbol.asyncDispose]();
});

const get = (path: string, init: RequestInit = {}) =>
  fetch(`${service.url}${path}`, { redirect: 'manual', ...init });

describe('the other routes', () => {
  it('/health says that it is alive, /ready whether it can work', async () => {
    expect((await get('/health')).status).toBe(200);
    expect((await get('/ready')).status).toBe(200);
    service.reasons = ['the database does not answer'];
    const ready = await get('/ready');
    expect([ready.status, await ready.json()]).toEqual([
      503,
      { status: 'not ready', reasons: ['the database does not answer'] },
    ]);
    expect((await get('/health')).status).toBe(200);
  });

  it('/metrics counts, without names', async () => {
    await service.query('ann', '{ viewer { role } }');
    const text = await (await get('/metrics')).text();
    expect(text).toContain('muxwarden_http_requests_total{route="/graphql",status="200"} 1');
    expect(text).toContain('muxwarden_subscriptions 0');
    expect(text).not.toMatch(/ann|default-1/);
  });

  it('/metrics counts a stream that its reader left, and the problems of the record', async () => {
    const problem = { code: 'AUDIT_UNAVAILABLE', message: '', remedy: '', memberId: null };
    await using service = await startService({}, undefined, { problems: () => [problem] });
    service.accounts.add('ann', 'ADMIN');
    const leave = new AbortController();
    await service.post(
      { query: 'subscription { listingChanged { __typename } }' },
      { as: 'ann', headers: { accept: 'text/event-stream' }, signal: leave.signal },
    );
    leave.abort();
    const text = () => fetch(`${service.url}/metrics`).then((response) => response.text());
    await eventually(
      async () => (await text()).includes('requests_total{route="/graphql",status="200"} 1'),
      'it is counted',
    );
    expect(await text()).toContain('muxwarden_problems 1');
  });

  it('nothing else is there, and each has its policy', async () => {
    const absent = await get('/graphql/x?y=../../etc/passwd');
    expect(absent.status).toBe(404);
    for (const path of ['/health', '/sign-in', '/graphiql', '/nothing']) {
      const { headers } = await get(path);
      expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'/);
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('x-frame-options')).toBe('DENY');
    }
    expect((await get('/')).headers.get('location')).toBe('/graphiql');
    expect((await get('/health', { method: 'POST' })).status).toBe(405);
  });

  it('/graphiql is one page without inline scripts, and its files are ours', async () => {
    const response = await get('/graphiql');
    const page = await response.text();
    expect(page).not.toMatch(/<script>|https?:\/\//);
    expect(response.headers.get('content-security-policy')).toContain("script-src 'self';");
    const script = /<script src="([^"]+)"/.exec(page)?.[1] ?? '';
    const file = await get(script);
    expect(file.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(file.headers.get('cache-control')).toContain('immutable');
    expect((await file.text()).length).toBeGreaterThan(1_000_000);
    expect((await get('/graphiql/nothing.js')).status).toBe(404);
  });
});

describe('a sign-in link', () => {
  const redeem = (token: string, headers: Record<string, string> = { origin: service.url }) =>
    get('/sign-in', { method: 'POST', headers, body: new URLSearchParams({ token }) });

  it('is used up by the form alone: opening, prefetching and HEAD do not', async () => {
    service.accounts.links.set('one-time', 'ann');
    for (const method of ['GET', 'HEAD'])
      expect((await get('/sign-in', { method })).status).toBe(200);
    const signedIn = await redeem('one-time');
    expect([signedIn.status, signedIn.headers.get('location')]).toEqual([303, '/graphiql']);
    const cookie = signedIn.headers.get('set-cookie') ?? '';
    expect(cookie).toMatch(
      /^muxwarden=cookie-of-ann; Path=\/; HttpOnly; SameSite=Strict; Expires=[^;]+$/,
    );
    const answer = await service.post(
      { query: '{ viewer { via } }' },
      {
        headers: {
          cookie: cookie.split(';')[0] ?? '',
          origin: service.url,
          'x-muxwarden-csrf': '1',
        },
      },
    );
    expect(await answer.json()).toEqual({ data: { viewer: { via: 'SIGN_IN_LINK' } } });
    const again = await redeem('one-time');
    expect([again.status, again.headers.get('set-cookie')]).toEqual([403, null]);
    expect(await again.text()).toContain('muxwarden login');
  });

  it('may be pasted whole, without scripts', async () => {
    service.accounts.links.set('one-time', 'ann');
    expect((await redeem(`${service.url}/sign-in#one-time`)).status).toBe(303);
  });

  it('can’t be used by the page of another site, which would sign somebody in as somebody else', async () => {
    service.accounts.links.set('one-time', 'ann');
    expect((await redeem('one-time', { origin: 'https://evil.example' })).status).toBe(403);
    expect((await redeem('one-time', {})).status).toBe(403);
    expect(
      (await redeem('one-time', { origin: service.url, 'content-type': 'text/plain' })).status,
    ).toBe(415);
    expect((await redeem('x'.repeat(5_000))).status).toBe(413);
    expect((await redeem('one-time')).status).toBe(303);
  });

  it('is never logged', async () => {
    service.accounts.links.set('canary-token', 'ann');
    await redeem('canary-token');
    await redeem('canary-token');
    expect(service.log.join('')).not.toContain('canary-token');
  });

  it('has a __Host- cookie that is Secure where the public address is HTTPS', async () => {
    await using behind = await startService({ publicUrl: 'https://mux.example' });
    behind.accounts.add('ann', 'ADMIN');
    behind.accounts.links.set('one-time', 'ann');
    const response = await fetch(`http://127.0.0.1:${behind.server.port}/sign-in`, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: 'https://mux.example' },
      body: new URLSearchParams({ token: 'one-time' }),
    });
    expect(response.headers.get('set-cookie')).toMatch(
      /^__Host-muxwarden=\S+; Path=\/; HttpOnly; SameSite=Strict; .*; Secure$/,
    );
  });

  it('is refused where the cookie would travel in the clear', async () => {
    await using open = await startService({ host: '0.0.0.0' });
    open.accounts.links.set('one-time', 'ann');
    const response = await fetch(`http://127.0.0.1:${open.server.port}/sign-in`);
    expect(response.status).toBe(403);
    expect(await response.text()).toContain('MUXWARDEN_PUBLIC_URL');
  });
});

describe('listening', () => {
  it('says what to do when the port is taken', async () => {
    const config = readConfig({ MUXWARDEN_PORT: String(service.server.port) });
    const second = startService({ port: config.port });
    await expect(second).rejects.toThrow(ListenError);
    await expect(second).rejects.toThrow(/somebody listens there already\. Set MUXWARDEN_PORT/);
  });
});

/** What comes back for these bytes, until the server ends the connection or `enough` has come. */
async function exchange(enough: RegExp, ...sent: readonly (string | Buffer)[]): Promise<string> {
  const socket = connect(service.server.port, '127.0.0.1');
  let text = '';
  const over = new Promise<void>((resolve, reject) => {
    socket.on('data', (piece) => {
      text += String(piece);
      if (enough.test(text)) resolve();
    });
    socket.on('end', resolve);
    socket.on('error', reject);
  });
  over.catch(() => undefined);
  for (const bytes of sent) {
    await new Promise<void>((resolve, reject) => {
      socket.write(bytes, (error) => (error ? reject(error) : resolve()));
    });
    // As a slow line would bring it: a server that has closed by then is an error of the next one.
    if (sent.length > 2) await wait(20);
  }
  await over;
  socket.destroy();
  return text;
}

describe('callers that hang up', () => {
  it('leave nothing in the log above debug', async () => {
    const { capture } = service.fleet;
    let waiting = 0;
    let left = 0;
    service.fleet.capture = async (_pane, _lines, signal?: AbortSignal) => {
      waiting++;
      await new Promise((resolve) => signal?.addEventListener('abort', resolve));
      left++;
      throw signal?.reason;
    };
    try {
      const gone = new AbortController();
      const query = '{ panes { nodes { capture { __typename } } } }';
      const asked = Array.from({ length: 20 }, () =>
        service.post({ query }, { as: 'ann', signal: gone.signal }).catch(() => undefined),
      );
      await expect.poll(() => waiting).toBeGreaterThanOrEqual(20);
      gone.abort();
      await Promise.all(asked);
      await expect.poll(() => left).toBe(waiting);
      expect((await get('/health')).status).toBe(200);
      expect(service.log.filter((line) => /"level":[456]0/.test(line))).toEqual([]);
    } finally {
      service.fleet.capture = capture;
    }
  });
});

describe('a request over a bare connection', () => {
  const head = (length: number, ...more: readonly string[]) =>
    [
      'POST /graphql HTTP/1.1',
      `Host: 127.0.0.1:${service.server.port}`,
      'Authorization: Bearer mw_ann',
      'Content-Type: application/json',
      `Content-Length: ${length}`,
      ...more,
      '\r\n',
    ].join('\r\n');
  const body = '{"query":"{ viewer { role } }"}';

  it('that would upgrade to h2c is answered as it is', async () => {
    const upgrade = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AA'];
    const text = await exchange(/ADMIN/, head(body.length, ...upgrade), body);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text).toContain('{"data":{"viewer":{"role":"ADMIN"}}}');
  });

  const upgrade = (path: string, host = `127.0.0.1:${service.server.port}`) =>
    [
      `GET ${path} HTTP/1.1`,
      `Host: ${host}`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      `Sec-WebSocket-Key: ${'A'.repeat(22)}==`,
      'Sec-WebSocket-Protocol: graphql-transport-ws',
      '\r\n',
    ].join('\r\n');

  it('that would upgrade anything else to a WebSocket is answered as it is', async () => {
    expect(await exchange(/nothing here/, upgrade('/x'))).toMatch(/^HTTP\/1\.1 404 /);
    expect(await exchange(/alive/, upgrade('/health'))).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('becomes a WebSocket after the answers before it, never in front of them', async () => {
    const asked = head(body.length) + body;
    const atOnce = await exchange(/Use POST/, asked + upgrade('/graphql'));
    expect(atOnce.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 405']);
    const inTurn = await exchange(/ 101 /, asked, '', upgrade('/graphql'));
    expect(inTurn.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 101']);
  });

  it.each(['/graphql', '/x', '/health'])(
    'for a WebSocket at %s whose sender is gone by then harms nobody',
    async (path) => {
      const failures: unknown[] = [];
      const failed = (error: unknown) => failures.push(error);
      process.on('uncaughtExceptionMonitor', failed);
      try {
        for (let times = 0; times < 20; times += 1) {
          const socket = connect(service.server.port, '127.0.0.1');
          await once(socket, 'connect');
          socket.write(upgrade(path, times % 2 === 0 ? undefined : 'evil.example'));
          await new Promise((resolve) => setImmediate(resolve));
          socket.resetAndDestroy();
        }
        expect((await get('/health')).status).toBe(200);
      } finally {
        process.off('uncaughtExceptionMonitor', failed);
      }
      expect(failures).toEqual([]);
    },
  );

  it('with a body too large is read on for a while, so that its 413 arrives without a reset', async () => {
    const pieces = Array.from({ length: 9 }, () => Buffer.alloc(100_000, 'x'));
    const text = await exchange(/at most 65536 bytes/, head(900_000), ...pieces);
    expect(text).toMatch(/^HTTP\/1\.1 413 /);
    expect(text).toContain('The body has at most 65536 bytes.');
  });

  it('is refused in a moment where a body too large is announced and never comes', async () => {
    const text = await exchange(/at most 65536 bytes/, head(2 ** 31));
    expect(text).toMatch(/^HTTP\/1\.1 413 /);
  });

  it('that asks before it sends is told to go on, or at once that it is too large', async () => {
    const asks = 'Expect: 100-continue';
    const [at, waited] = [performance.now(), await waitedForCoreMs('self')];
    const refused = await exchange(/at most 65536 bytes/, head(65_537, asks));
    expect(refused).toMatch(/^HTTP\/1\.1 413 /);
    const took = performance.now() - at;
    // A body that is read on for a while takes a second.
    expect(took - ((await waitedForCoreMs('self')) - waited)).toBeLessThan(900);
    expect(await exchange(/ADMIN/, head(body.length, asks), body)).toMatch(
      /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /,
    );
  });

  it('that asks behind one that is not answered yet gets its answer whole', async () => {
    const asks = head(body.length, 'Expect: 100-continue') + body;
    const text = await exchange(/ADMIN.*ADMIN/s, head(body.length) + body + asks);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200']);
    expect(text.match(/\r\n\r\n\{"data":\{"viewer":\{"role":"ADMIN"\}\}\}/g)).toHaveLength(2);
  });

  it('that is none, behind one that is not answered yet, is not said in the place of its answer', async () => {
    const answered = head(body.length) + body;
    expect(await exchange(/\n\n/, `${answered}nonsense\r\n\r\n`)).not.toMatch(/ 400 /);
    expect(await exchange(/\n\n/, 'nonsense\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
    const broken = `${head(0, 'Transfer-Encoding: chunked').replace(/Content-Length: 0\r\n/i, '')}nonsense\r\n`;
    expect(await exchange(/\n\n/, broken)).toMatch(/^HTTP\/1\.1 400 /);
  });

  it('that never ends its headers is let go after about 10 s', async () => {
    const at = performance.now();
    const text = await exchange(/\n\n/, 'POST /graphql HTTP/1.1\r\nHost: x\r\n');
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
    const seconds = (performance.now() - at) / 1_000;
    expect(seconds).toBeGreaterThan(9);
    expect(seconds).toBeLessThan(20);
  }, 40_000);
});

describe('stopping', () => {
  it('lets what runs finish, refuses what is new, and cuts what does not end', async () => {
    const read = service.fleet.read.bind(service.fleet);
    const begun = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    service.fleet.read = async (id) => {
      begun.resolve();
      await go.promise;
      return await read(id);
    };
    const running = service.query('ann', '{ members { nodes { listing { state } } } }');
    await begun.promise;
    const idle = connect(service.server.port, '127.0.0.1');
    await once(idle, 'connect');
    const stopped = service.server.stop(20_000);
    go.resolve();
    expect((await running).errors).toBeUndefined();
    idle.resume();
    await stopped;
    await expect(get('/health')).rejects.toThrow();
  });
});
