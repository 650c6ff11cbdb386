import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'graphql-ws';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type AccountsService, startAccountsServiceOn } from '../support/accounts-service.ts';
import { ScriptedFleet } from '../support/acting.ts';
import { lacks } from '../support/needs.ts';
import { freePort } from '../support/postgres.ts';
import { findProxy, publicName, type ReverseProxy, startProxy } from '../support/reverse-proxy.ts';

/** The service behind real proxies, which run what docs/deployment.md prints. */

const password = 'canary-correct-horse';
const origin = `https://${publicName}`;
const signIn = (login: string, given = password) => ({
  query: `mutation { signIn(input: { login: "${login}", password: "${given}" }) { __typename } }`,
});
const browser = { origin, 'x-muxwarden-csrf': '1' };

for (const kind of ['nginx', 'caddy'] as const) {
  const unable = lacks('openssl') || (await findProxy(kind)) === undefined;
  describe.skipIf(unable)(`behind ${kind}, as the documentation configures it`, () => {
    let folder: string;
    let service: AccountsService<ScriptedFleet>;
    let proxy: ReverseProxy;
    let key: string;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'mw-proxy-'));
      const port = await freePort();
      service = await startAccountsServiceOn(new ScriptedFleet(), 'embedded', {
        MUXWARDEN_PORT: `${port}`,
        MUXWARDEN_PUBLIC_URL: origin,
        MUXWARDEN_TRUSTED_PROXIES: '127.0.0.1',
      });
      key = await service.key(await service.add('alice', 'ADMIN', password));
      proxy = await startProxy(kind, port, join(folder, 'proxy'));
    });
    afterAll(async () => {
      await proxy?.[Symbol.asyncDispose]();
      await service?.[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    });

    const tls = () => ({ ca: proxy.ca, servername: publicName });

    /** From another loopback address than the proxy's own, so that the two can be told apart. */
    function ask(
      body: object,
      headers: Readonly<Record<string, string>>,
    ): Promise<IncomingMessage> {
      return new Promise((resolve, reject) => {
        const asked = request(
          {
            ...{ host: '127.0.0.1', port: proxy.port, ...tls(), localAddress: '127.0.0.2' },
            ...{ method: 'POST', path: '/graphql', agent: false },
            headers: { host: publicName, 'content-type': 'application/json', ...headers },
          },
          resolve,
        );
        asked.on('error', reject).end(JSON.stringify(body));
      });
    }
    async function textOf(answer: IncomingMessage): Promise<string> {
      let text = '';
      for await (const chunk of answer.setEncoding('utf8')) text += chunk;
      return text;
    }
    async function session(): Promise<string> {
      const answer = await ask(signIn('alice'), browser);
      expect(await textOf(answer)).toBe('{"data":{"signIn":{"__typename":"SignInPayload"}}}');
      const [cookie = ''] = answer.headers['set-cookie'] ?? [];
      expect(cookie).toMatch(/^__Host-muxwarden=.*; Secure/);
      return cookie.split(';')[0] ?? '';
    }

    it('signs in over TLS, for pages of the outside address alone', async () => {
      const cookie = await session();
      const viewer = { query: '{ viewer { member { login } } }' };
      const mine = await ask(viewer, { ...browser, cookie });
      expect(await textOf(mine)).toBe('{"data":{"viewer":{"member":{"login":"alice"}}}}');
      const foreign: readonly Readonly<Record<string, string>>[] = [
        { origin: 'https://evil.example.org' },
        { origin: `http://${publicName}:4000` },
        { host: 'evil.example.org', origin: 'https://evil.example.org' },
      ];
      for (const headers of foreign) {
        const refused = await ask(viewer, { ...browser, cookie, ...headers });
        expect([headers, await textOf(refused)]).not.toEqual([
          headers,
          expect.stringContaining('alice'),
        ]);
        if (!('host' in headers)) expect(refused.statusCode).toBe(403);
      }
      // As a page that has its own name point here would ask, if it had a key.
      const byName = await ask(viewer, {
        authorization: `Bearer ${key}`,
        host: 'evil.example.org',
      });
      expect(await textOf(byName)).not.toContain('alice');
    });

    it('records who called, and not whom the caller says it is', async () => {
      const forged = {
        'x-forwarded-for': '203.0.113.9',
        forwarded: 'for=203.0.113.9',
        'x-real-ip': '203.0.113.9',
      };
      await textOf(await ask(signIn('alice', 'wrong'), { ...browser, ...forged }));
      expect((await service.rows()).at(-1)).toMatchObject({
        ...{ action: 'SIGN_IN', outcome: 'DENIED', actorAddress: '127.0.0.2' },
      });
    });

    it('gets each event of a stream at once, by server-sent events', async () => {
      const query = 'subscription { auditEventAdded { auditEvent { outcome } } }';
      const stream = await ask(
        { query },
        { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
      );
      expect(stream.headers['content-type']).toMatch(/^text\/event-stream/);
      let text = '';
      stream.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      for (const count of [1, 2, 3]) {
        await session();
        await expect.poll(() => text.match(/^data: .*SUCCEEDED/gm)?.length).toBe(count);
      }
      expect(stream.complete).toBe(false);
      stream.destroy();
    });

    it('is reached by WebSocket, with a cookie from the outside Origin alone', async () => {
      const cookie = await session();
      const proxyPort = proxy.port;
      class Socket extends WebSocket {
        constructor(headers: Readonly<Record<string, string>>) {
          super(`wss://127.0.0.1:${proxyPort}/graphql`, 'graphql-transport-ws', {
            ...tls(),
            headers: { host: publicName, ...headers },
          });
        }
      }
      class OurPage extends Socket {
        constructor() {
          super({ origin, cookie });
        }
      }
      const client = createClient({ url: origin, webSocketImpl: OurPage, retryAttempts: 0 });
      const query = '{ viewer { member { login } } }';
      for await (const result of client.iterate({ query }))
        expect(result).toEqual({ data: { viewer: { member: { login: 'alice' } } } });
      await client.dispose();
      const foreign: readonly Readonly<Record<string, string>>[] = [
        { origin: 'https://evil.example.org', cookie },
        { cookie },
      ];
      for (const headers of foreign) {
        const refused = new Socket(headers);
        const status = await new Promise((resolve, reject) => {
          refused.on('unexpected-response', (_, { statusCode }) => resolve(statusCode));
          refused.on('open', () => reject(new Error('it was let in')));
          refused.on('error', () => {});
        });
        expect([headers, status]).toEqual([headers, 403]);
        refused.terminate();
      }
    });
  });
}
