import { request as httpRequest } from 'node:http';
import { auditServer } from 'graphql-http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';

let service: Service;
beforeAll(async () => {
  service = await startService({ allowedOrigins: ['https://listed.example'] });
  const ann = service.accounts.add('ann', 'ADMIN');
  service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
  service.accounts.beginSession('annas-cookie', 'ann');
});
afterAll(async () => await service[Symbol.asyncDispose]());

const query = '{ viewer { role } }';

/** A request with headers that fetch does not let through (Host, Origin). */
function raw(
  options: { method?: string; path?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<{ status: number; headers: Record<string, unknown>; text: string }> {
  const {
    method = 'POST',
    path = '/graphql',
    headers = {},
    body = JSON.stringify({ query }),
  } = options;
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: '127.0.0.1',
        port: service.server.port,
        method,
        path,
        headers: {
          'content-type': 'application/json',
          authorization: 'Bearer mw_ann',
          ...headers,
        },
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (piece: string) => {
          text += piece;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
      },
    );
    request.on('error', reject);
    request.end(method === 'GET' || method === 'OPTIONS' ? undefined : body);
  });
}

/** Every refusal is a GraphQL answer with a code and a request id. */
function codeOf(text: string): string {
  const answer = JSON.parse(text) as {
    errors: { extensions: { code: string; requestId: string } }[];
  };
  expect(answer.errors[0]?.extensions.requestId).toMatch(/^[0-9a-f-]{36}$/);
  return answer.errors[0]?.extensions.code ?? '';
}

describe('the conformance audits of graphql-http', () => {
  it('all pass, but the three that ask for GET, which we refuse for everything', async () => {
    const audits = await auditServer({
      url: `${service.url}/graphql`,
      fetchFn: (url: string, init: RequestInit = {}) => {
        const headers = new Headers(init.headers);
        headers.set('authorization', 'Bearer mw_ann');
        return fetch(url, { ...init, headers });
      },
    });
    expect(audits).toHaveLength(61);
    const noted = audits
      .filter(({ status }) => status !== 'ok')
      .map(({ name, status }) => [status, name]);
    expect(noted).toEqual([
      ['notice', 'MAY accept application/x-www-form-urlencoded formatted GET requests'],
      [
        'notice',
        'MAY allow URL-encoded JSON string {variables} parameter in GETs when accepting application/graphql-response+json',
      ],
      [
        'notice',
        'MAY allow URL-encoded JSON string {variables} parameter in GETs when accepting application/json',
      ],
    ]);
  });
});

describe('POST /graphql', () => {
  it('answers who has a key', async () => {
    const { status, text, headers } = await raw();
    expect([status, JSON.parse(text)]).toEqual([200, { data: { viewer: { role: 'ADMIN' } } }]);
    expect(headers['cache-control']).toBe('no-store');
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['access-control-allow-origin']).toBeUndefined();
  });

  it('says UNAUTHENTICATED to who has none, or a bad one', async () => {
    for (const authorization of ['', 'Bearer mw_nobody', 'Basic YTpi', 'Bearer ']) {
      const { status, text, headers } = await raw({ headers: { authorization } });
      expect([status, codeOf(text)]).toEqual([401, 'UNAUTHENTICATED']);
      expect(headers['www-authenticate']).toMatch(/^Bearer/);
    }
  });

  it('refuses every other method', async () => {
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) {
      const { status, text, headers } = await raw({
        method,
        path: `/graphql?query=${encodeURIComponent(query)}`,
      });
      expect([method, status, codeOf(text), headers.allow]).toEqual([
        method,
        405,
        'BAD_USER_INPUT',
        'POST',
      ]);
    }
  });

  it('refuses every other content type: forms run nothing', async () => {
    const types = [
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'text/plain',
      'application/graphql',
      'application/json; charset=utf-16',
    ];
    for (const type of types) {
      const { status, text } = await raw({ headers: { 'content-type': type } });
      expect([type, status, codeOf(text)]).toEqual([type, 415, 'BAD_USER_INPUT']);
    }
  });

  it('refuses a Host that is not ours, an Origin that is not listed, and `null`', async () => {
    const foreign: Record<string, string>[] = [
      { host: 'evil.example' },
      { host: 'evil.example:4000' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: `http://evil.example:${service.server.port}` },
    ];
    for (const headers of foreign) {
      const { status, text } = await raw({ headers });
      expect([headers, status, codeOf(text)]).toEqual([headers, 403, 'FORBIDDEN']);
    }
    for (const host of ['localhost', `127.0.0.1:${service.server.port}`, '[::1]:4000'])
      expect((await raw({ headers: { host } })).status).toBe(200);
  });

  it('gives CORS headers to a listed origin, exactly, and to nobody else', async () => {
    const listed = await raw({ headers: { origin: 'https://listed.example' } });
    expect(listed.headers['access-control-allow-origin']).toBe('https://listed.example');
    expect(listed.headers['access-control-allow-credentials']).toBeUndefined();
    const asked = { 'access-control-request-method': 'POST' };
    const preflight = await raw({
      method: 'OPTIONS',
      headers: { origin: 'https://listed.example', ...asked },
    });
    expect([preflight.status, preflight.headers['access-control-allow-methods']]).toEqual([
      204,
      'POST',
    ]);
    const foreign = await raw({
      method: 'OPTIONS',
      headers: { origin: 'https://evil.example', ...asked },
    });
    expect(foreign.status).toBe(403);
    expect(foreign.headers['access-control-allow-origin']).toBeUndefined();
  });

  it('takes a cookie only with the CSRF header and an Origin of ours', async () => {
    const cookie = { authorization: '', cookie: 'other=1; muxwarden=annas-cookie' };
    const origin = service.url;
    const csrf = { 'x-muxwarden-csrf': '1' };
    expect((await raw({ headers: { ...cookie, ...csrf, origin } })).status).toBe(200);
    for (const headers of [
      cookie,
      { ...cookie, origin },
      { ...cookie, ...csrf },
      { ...cookie, 'x-muxwarden-csrf': '0', origin },
    ]) {
      const { status, text } = await raw({ headers });
      expect([status, codeOf(text)]).toEqual([403, 'FORBIDDEN']);
    }
  });

  it('refuses a batch, and what is no JSON, without a stack', async () => {
    for (const body of [
      JSON.stringify([{ query }, { query }]),
      '{',
      '"x"',
      'null',
      '{}',
      '{"query":7}',
    ]) {
      const { status, text } = await raw({ body });
      expect([body, status]).toEqual([body, 400]);
      expect(codeOf(text)).toBe('BAD_USER_INPUT');
      expect(text).not.toMatch(/\bat .*\.(js|ts)|node_modules/);
    }
  });

  it('names the argument of bad input, suggests nothing, and never answers 500', async () => {
    const cases: [string, RegExp][] = [
      ['{ members(first: 1000) { nodes { id } } }', /`first` is from 1 to 100/],
      ['{ members(first: 0) { nodes { id } } }', /`first`/],
      ['{ members(after: "x") { nodes { id } } }', /`after`/],
      ['{ panes(filter: {tmuxServerId: "x"}) { nodes { id } } }', /`filter\.tmuxServerId`/],
      ['{ tmuxServers(filter: {memberIds: ["x"]}) { nodes { id } } }', /`filter\.memberIds\[0\]`/],
      ['mutation { refreshListing(memberId: "%0") { id } }', /`memberId`/],
      ['{ viewr { role } }', /^Cannot query field "viewr" on type "Query"\.$/],
      [
        '{ members(frst: 1) { nodes { id } } }',
        /^Unknown argument "frst" on field "Query\.members"\.$/,
      ],
      ['{ auditEvents(filter: {from: "yesterday"}) { nodes { id } } }', /DateTime/],
      ['{ __schema { types { nam } } }', /^Cannot query field "nam" on type "__Type"\.$/],
    ];
    for (const [text, message] of cases) {
      const response = await service.post({ query: text }, { as: 'ann' });
      const { errors } = (await response.json()) as Awaited<ReturnType<Service['query']>>;
      expect([text, errors?.[0]?.extensions.code]).toEqual([text, 'BAD_USER_INPUT']);
      expect(errors?.[0]?.message).toMatch(message);
      expect(response.status).toBeLessThan(500);
    }
  });

  it('masks what nobody expected, and logs it under the request id', async () => {
    const read = service.fleet.read;
    service.fleet.read = () => Promise.reject(new Error('secret /home/ann SELECT'));
    try {
      const answer = await service.query('ann', '{ members { nodes { tmuxServers { id } } } }');
      expect(JSON.stringify(answer)).not.toMatch(/secret|SELECT|home/);
      const { code, requestId } = answer.errors?.[0]?.extensions ?? { code: '', requestId: '' };
      expect(code).toBe('INTERNAL_SERVER_ERROR');
      const line = service.log.find((each) => each.includes(requestId));
      expect(line).toContain('secret /home/ann SELECT');
    } finally {
      service.fleet.read = read;
    }
  });
});

describe('POST /graphql as SSE', () => {
  it('streams a subscription and leaves nothing when the client goes', async () => {
    const gone = new AbortController();
    const response = await service.post(
      { query: 'subscription { listingChanged { __typename } }' },
      { as: 'ann', headers: { accept: 'text/event-stream' }, signal: gone.signal },
    );
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('ListingSynced')) text += (await reader?.read())?.value ?? '';
    expect(text).toContain(
      'event: next\ndata: {"data":{"listingChanged":{"__typename":"ListingSnapshot"}}}',
    );
    expect(service.fleet.following).toBe(1);
    gone.abort();
    await expect.poll(() => service.fleet.following).toBe(0);
  });

  it('refuses a foreign Origin and a missing key before anything is opened', async () => {
    const headers = { accept: 'text/event-stream' };
    const body = JSON.stringify({ query: 'subscription { listingChanged { __typename } }' });
    expect(
      (await raw({ body, headers: { ...headers, origin: 'https://evil.example' } })).status,
    ).toBe(403);
    expect((await raw({ body, headers: { ...headers, authorization: '' } })).status).toBe(401);
    expect(service.fleet.following).toBe(0);
  });
});
