import { createClient } from 'graphql-ws';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { Sessions } from '../../src/auth/sessions.ts';
import type { Member } from '../../src/members/member.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import type { PaneRef } from '../../src/tmux/model.ts';
import type { PaneOutputEvent } from '../../src/tmux/pane-events.ts';
import {
  type AccountsService,
  browser,
  startAccountsServiceOn,
} from '../support/accounts-service.ts';
import { bootId, listing, pathHex, SyntheticFleet, server } from '../support/synthetic-fleet.ts';

/**
 * Whatever ends authority, made by another process: within a second the stream says so once, no byte
 * comes after, and the connection is over.
 */

const floods = 1;

/** A pane that never stops printing, and one that prints more than any connection takes. */
class PrintingFleet extends SyntheticFleet {
  override async *output(
    { pane }: PaneRef,
    _after: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<PaneOutputEvent> {
    for (let count = 0; !signal.aborted; count += 1) {
      yield {
        kind: 'chunk',
        cursor: `at-${count}`,
        at: new Date(),
        data: Buffer.from('x'.repeat(pane === floods ? 65_536 : 1)),
        carry: Buffer.alloc(0),
        state: 'text',
      };
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }
}

let service: AccountsService<PrintingFleet>;
let ann: Member;
let count = 0;
beforeAll(async () => {
  service = await startAccountsServiceOn(new PrintingFleet());
  ann = await service.add('ann', 'ADMIN');
  await service.add('another', 'ADMIN');
  service.fleet.set(listing(ann.id, [server(ann.id, 1)]));
});
afterAll(() => service?.[Symbol.asyncDispose]());

const pane = (number = 0) =>
  encodeId({
    type: 'TmuxPane',
    ref: {
      memberId: ann.id,
      pathHex: pathHex('/tmp/tmux-1001/default-1'),
      generation: `${bootId}:4001:100001`,
      pane: number,
    },
  });
const query = `subscription($pane: ID!) { paneOutput(paneId: $pane) {
  __typename ... on PaneChunk { data } ... on PaneClosed { closeReason } } }`;

interface Credential {
  readonly headers: Readonly<Record<string, string>>;
  readonly member: Member;
}
interface Event {
  readonly __typename: string;
  readonly closeReason?: string;
}
interface Watched {
  readonly events: Event[];
  /** How it ended: the close of the socket, or the end of the event stream. */
  readonly ended: Promise<number | 'end'>;
}

async function byKey(expiresAt: Date | null = null): Promise<Credential & { readonly id: string }> {
  count += 1;
  const member = await service.add(`admin-${count}`, 'ADMIN');
  const key = await service.key(member, { expiresAt });
  const viewer = await service.accounts.authenticateKey(key);
  return { member, headers: { authorization: `Bearer ${key}` }, id: viewer?.credentialId ?? '' };
}

async function bySession(): Promise<Credential> {
  count += 1;
  const member = await service.add(`admin-${count}`, 'ADMIN');
  const { token } = await new Sessions(service.database.database).begin(member.id, null);
  return { member, headers: { ...browser(service.url), cookie: `muxwarden=${token}` } };
}

function overWebSocket({ headers }: Credential): Watched {
  const events: Event[] = [];
  class Socket extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { headers });
    }
  }
  const client = createClient({
    url: `${service.url.replace('http', 'ws')}/graphql`,
    webSocketImpl: Socket,
    retryAttempts: 0,
    lazy: false,
    onNonLazyError: () => undefined,
  });
  const ended = new Promise<number>((resolve) => {
    client.on('closed', (event) => resolve((event as { code: number }).code));
  });
  client.subscribe<{ paneOutput: Event }>(
    { query, variables: { pane: pane() } },
    {
      next: ({ data }) => data && events.push(data.paneOutput),
      error: () => undefined,
      complete: () => undefined,
    },
  );
  return { events, ended };
}

function overEventStream({ headers }: Credential): Watched {
  const events: Event[] = [];
  const read = async () => {
    const response = await fetch(`${service.url}/graphql`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify({ query, variables: { pane: pane() } }),
    });
    let text = '';
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes, { stream: true });
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        const [, data] = /^data: (\{.*\})$/.exec(text.slice(0, end)) ?? [];
        text = text.slice(end + 1);
        if (data !== undefined) events.push(JSON.parse(data).data.paneOutput);
      }
    }
    return 'end' as const;
  };
  return { events, ended: read() };
}

/** Bytes, then exactly one PaneClosed and nothing behind it, then the end: all within a second. */
async function endsWithin(watched: Watched, how: number | 'end', since: number): Promise<void> {
  const end = await watched.ended;
  const ms = Date.now() - since;
  // Long enough for whatever were to come late.
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(end).toBe(how);
  const kinds = watched.events.map(({ __typename }) => __typename);
  expect(kinds.slice(0, -1).every((kind) => kind === 'PaneChunk')).toBe(true);
  expect(watched.events.at(-1)).toEqual({
    __typename: 'PaneClosed',
    closeReason: 'PERMISSION_WITHDRAWN',
  });
  expect(ms).toBeLessThan(1_000);
}

const printing = async ({ events }: Watched) =>
  await expect.poll(() => events.length, { timeout: 10_000 }).toBeGreaterThan(5);

describe.each([
  ['a WebSocket', overWebSocket, 4403],
  ['server-sent events', overEventStream, 'end'],
] as const)('a stream over %s', (_, watch, how) => {
  it('ends when its key is revoked', async () => {
    const credential = await byKey();
    const watched = watch(credential);
    await printing(watched);
    const since = Date.now();
    await service.keys.revoke(credential.id);
    await endsWithin(watched, how, since);
  });

  it('ends when the member is disabled', async () => {
    const credential = await byKey();
    const watched = watch(credential);
    await printing(watched);
    const since = Date.now();
    await service.members.change(credential.member.id, { disabled: true });
    await endsWithin(watched, how, since);
  });

  it('ends with the session when the member gets another role', async () => {
    const credential = await bySession();
    const watched = watch(credential);
    await printing(watched);
    const since = Date.now();
    await service.members.change(credential.member.id, { role: 'ANALYST' });
    await endsWithin(watched, how, since);
  });

  it('ends when its key expires', async () => {
    const expiresAt = new Date(Date.now() + 2_000);
    const watched = watch(await byKey(expiresAt));
    await printing(watched);
    await endsWithin(watched, how, expiresAt.getTime());
  });

  it('ends when the member is deleted', async () => {
    const credential = await byKey();
    const watched = watch(credential);
    await printing(watched);
    const since = Date.now();
    await service.members.delete(credential.member.id);
    await endsWithin(watched, how, since);
  });
});

it('ends on a socket that goes on when a new role no longer reaches the pane', async () => {
  const credential = await byKey();
  const watched = overWebSocket(credential);
  await printing(watched);
  await service.members.change(credential.member.id, { role: 'ANALYST' });
  await expect
    .poll(() => watched.events.at(-1), { timeout: 5_000 })
    .toEqual({ __typename: 'PaneClosed', closeReason: 'PERMISSION_WITHDRAWN' });
  const early = await Promise.race([
    watched.ended,
    new Promise((resolve) => setTimeout(resolve, 600, 'open')),
  ]);
  expect(early).toBe('open');
});

it('ends also where nothing is read, and the connection with it', async () => {
  const open = async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    return ['subscriptions', 'websockets'].map((name) =>
      Number(new RegExp(`^muxwarden_${name} (\\d+)$`, 'm').exec(text)?.[1]),
    );
  };
  const [streams = 0, sockets = 0] = await open();
  const credential = await byKey();
  const payload = { query, variables: { pane: pane(floods) } };
  const url = `${service.url.replace('http', 'ws')}/graphql`;
  const { headers } = credential;
  const socket = new WebSocket(url, 'graphql-transport-ws', { headers });
  socket.on('error', () => undefined);
  socket.once('open', () => socket.send('{"type":"connection_init"}'));
  socket.once('message', () => {
    socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload }));
    socket.pause();
  });
  const leave = new AbortController();
  try {
    await fetch(`${service.url}/graphql`, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
      body: JSON.stringify(payload),
      signal: leave.signal,
    });
    await expect.poll(open, { timeout: 10_000 }).toEqual([streams + 2, sockets + 1]);
    // Until the system takes no more either.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await service.keys.revoke(credential.id);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(await open()).toEqual([streams, sockets]);
  } finally {
    leave.abort();
    socket.terminate();
  }
});
