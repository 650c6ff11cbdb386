import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listing, server } from '../support/synthetic-fleet.ts';
import { type Answer, type Service, startService } from '../support/synthetic-service.ts';
import { bearer, socketClient, transports } from '../support/transports.ts';

/** What an answer never says, over every transport: internals of ours, and what was given as input. */

let service: Service;
const overEach = Object.entries(transports);
const secret = 'secret /home/ann SELECT * FROM members';
beforeAll(async () => {
  service = await startService();
  const ann = service.accounts.add('ann', 'ADMIN');
  service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
});
afterAll(() => service[Symbol.asyncDispose]());

const fails = <Name extends 'read' | 'capture' | 'follow'>(
  name: Name,
  as: Service['fleet'][Name],
): Disposable => {
  const { [name]: before } = service.fleet;
  service.fleet[name] = as;
  return {
    [Symbol.dispose]() {
      service.fleet[name] = before;
    },
  };
};

/** One masked error, whose request id the log has beside the truth. */
function expectMasked(answer: Answer<unknown>): void {
  expect(JSON.stringify(answer)).not.toMatch(/secret|SELECT|\/home|at .*\.ts|node_modules/);
  const [error] = answer.errors ?? [];
  expect(error?.extensions.code).toBe('INTERNAL_SERVER_ERROR');
  const { requestId = '' } = error?.extensions ?? {};
  expect(requestId).toMatch(/^[0-9a-f-]{36}$/);
  expect(service.log.find((line) => line.includes(requestId))).toContain(secret);
}

describe('what nobody expected', () => {
  const query = '{ members { nodes { tmuxServers { id } } } }';
  it.each(overEach)('in a query is masked and logged over %s', async (_, ask) => {
    using _failing = fails('read', () => Promise.reject(new Error(secret)));
    expectMasked(await ask(service, bearer('ann'), { query }));
  });

  it.each(overEach)('that is no Error is masked over %s', async (_, ask) => {
    using _failing = fails('read', () => Promise.reject(secret));
    expectMasked(await ask(service, bearer('ann'), { query }));
  });

  const follow = 'subscription { listingChanged { __typename } }';
  it.each(overEach.slice(1))('at the start of a subscription is masked over %s', async (_, ask) => {
    using _failing = fails('follow', () => {
      throw new Error(secret);
    });
    expectMasked(await ask(service, bearer('ann'), { query: follow }));
  });

  const broken: Service['fleet']['follow'] = async function* () {
    yield { kind: 'synced', at: new Date(0) };
    throw new Error(secret);
  };
  it('within a subscription is masked over SSE', async () => {
    using _failing = fails('follow', broken);
    const response = await service.post(
      { query: follow },
      { as: 'ann', headers: { accept: 'text/event-stream' } },
    );
    const events = [...(await response.text()).matchAll(/^data: (\{.+\})$/gm)];
    expectMasked(JSON.parse(events.at(-1)?.[1] ?? '{}'));
  });
  it('within a subscription is masked over WebSocket', async () => {
    using _failing = fails('follow', broken);
    const client = socketClient(service, bearer('ann'));
    const answers: Answer<unknown>[] = [];
    for await (const answer of client.iterate({ query: follow }))
      answers.push(answer as Answer<unknown>);
    await client.dispose();
    expectMasked(answers.at(-1) ?? {});
  });
});

describe('what was given as input', () => {
  const input = { tmuxServerId: 'x', expectedGeneration: 'g', idempotencyKey: 'k' };
  const variables = [
    { ...input, password: { a: 'canary' } },
    { ...input, password: ['canary'] },
    { ...input, pasword: 'canary' },
    { password: 'canary' },
    { ...input, restoreCommands: [{ paneId: 'x', command: [{ typed: 'canary' }] }] },
    'canary',
  ];
  const inline = (password: string) =>
    `mutation { restartTmuxServer(input: {tmuxServerId: "x", expectedGeneration: "g", idempotencyKey: "k", ${password}}) { __typename } }`;

  it.each(overEach)('is not told back in what is wrong with it over %s', async (_, ask) => {
    const query =
      'mutation($input: RestartTmuxServerInput!) { restartTmuxServer(input: $input) { __typename } }';
    const answers = [
      ...(await Promise.all(
        variables.map((each) => ask(service, bearer('ann'), { query, variables: { input: each } })),
      )),
      ...(await Promise.all(
        [
          'password: {a: "canary"}',
          'pasword: "canary"',
          'password: ["canary"]',
          'password: "canary',
        ].map((each) => ask(service, bearer('ann'), { query: inline(each) })),
      )),
    ];
    for (const answer of answers) {
      expect(answer.errors?.[0]?.extensions.code).toBe('BAD_USER_INPUT');
      expect(JSON.stringify(answer)).not.toContain('canary');
    }
    expect(answers[0]?.errors?.[0]?.message).toBe(
      'Variable "$input" has invalid value at .password: String cannot represent a non string value.',
    );
    expect(answers[3]?.errors?.[0]?.message).toBe(
      'Variable "$input" has invalid value: Expected value of type "RestartTmuxServerInput" to include required field "expectedGeneration".',
    );
    expect(service.log.join('')).not.toContain('canary');
  });
});

describe('the headers of every answer', () => {
  const routes: readonly (readonly [string, RequestInit])[] = [
    ['/graphql', { method: 'POST', body: '{"query":"{ viewer { role } }"}' }],
    ['/graphql', { method: 'POST', body: '{"query":"{ nothing }"}' }],
    [
      '/graphql',
      {
        method: 'POST',
        body: '{"query":"subscription { listingChanged { __typename } }"}',
        headers: { accept: 'text/event-stream' },
      },
    ],
    ['/graphql', { method: 'GET' }],
    ['/graphql', { method: 'OPTIONS', headers: { 'access-control-request-method': 'POST' } }],
    ['/graphql', { method: 'POST', body: 'x'.repeat(70_000) }],
    ['/graphiql', {}],
    ['/graphiql/none.js', {}],
    ['/sign-in', {}],
    ['/sign-in', { method: 'POST', body: 'token=x' }],
    ['/health', {}],
    ['/ready', {}],
    ['/metrics', {}],
    ['/', { redirect: 'manual' }],
    ['/none', {}],
  ];
  it.each(routes)(
    '%s: no frame, no sniffing, no script of others, no referrer, no cache',
    async (path, init) => {
      const headers = { ...bearer('ann'), 'content-type': 'application/json', ...init.headers };
      // Twice: the second may be an answer that was kept.
      for (const _ of ['made', 'kept']) {
        const gone = new AbortController();
        const response = await fetch(`${service.url}${path}`, {
          ...init,
          headers,
          signal: gone.signal,
        });
        const of = (name: string) => response.headers.get(name);
        expect(of('x-content-type-options')).toBe('nosniff');
        expect(of('x-frame-options')).toBe('DENY');
        // The form of a sign-in link has to say where it comes from.
        const isForm = path === '/sign-in' && init.method === undefined;
        expect(of('referrer-policy')).toBe(isForm ? 'same-origin' : 'no-referrer');
        expect(of('cross-origin-resource-policy')).toBe('same-origin');
        expect(of('content-security-policy')).toMatch(
          /^default-src 'none';.*frame-ancestors 'none'/,
        );
        expect(of('content-security-policy')).not.toMatch(/script-src[^;]*unsafe/);
        expect(of('cache-control')).toBe('no-store');
        for (const name of ['server', 'x-powered-by', 'access-control-allow-origin'])
          expect(of(name)).toBeNull();
        gone.abort();
      }
    },
  );
});
