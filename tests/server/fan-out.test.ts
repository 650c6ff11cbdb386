import { beforeEach, describe, expect, it } from 'vitest';
import { type AtOnce, atOnce } from '../../src/concurrency/prompt.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import type { PaneOutputEvent } from '../../src/tmux/pane-events.ts';
import { executions, type Subscribed, subscribeOver, transports } from '../support/subscribed.ts';
import { bootId, listing, pathHex, server, session } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';
import { eventually } from '../support/tmux-server.ts';
import { bearer, socketClient } from '../support/transports.ts';

/** One execution and one serialisation for all to whom an event looks the same, and never for others. */

let service: Service;
let ann: string;
beforeEach(async () => {
  service = await startService();
  ann = service.accounts.add('ann', 'ADMIN').id;
  service.accounts.add('bob', 'ADMIN');
  service.accounts.add('ana', 'ANALYST');
  service.accounts.add('dev', 'DEVELOPER');
  service.fleet.set(listing(ann, [server(ann, 1, { sessions: [session(0)] })]));
  return async () => await service[Symbol.asyncDispose]();
});

const paneId = () =>
  encodeId({
    type: 'TmuxPane',
    ref: {
      memberId: ann,
      pathHex: pathHex('/tmp/tmux-1001/default-1'),
      generation: `${bootId}:4001:100001`,
      pane: 0,
    },
  });

const snapshot: PaneOutputEvent = {
  ...{ kind: 'snapshot', cursor: 'at-0', at: new Date(0), data: Buffer.from('screen') },
  ...{ columns: 80, rows: 24, cursorColumn: 0, cursorRow: 0, alternateScreen: false },
  ...{ source: 'CONTROL_CLIENT', screen: Buffer.from('screen\n') },
};
const chunk: PaneOutputEvent = {
  ...{ kind: 'chunk', cursor: 'at-7', at: new Date(0), data: Buffer.from('\x1b[1mé\x1b[0m') },
  ...{ carry: Buffer.alloc(0), state: 'text' },
};

const watch = `subscription($pane: ID!, $after: String, $controls: ControlSequences = KEPT) {
  paneOutput(paneId: $pane, after: $after) {
    __typename ... on PaneSnapshot { text } ... on PaneChunk { text(controls: $controls) data }
    ... on PaneClosed { closeReason } } }`;
const follow = (fields: string) =>
  `subscription { listingChanged { __typename ... on ListingSnapshot { member { login ${fields} } } } }`;

const number = async (events: readonly Subscribed[], count: number) =>
  await eventually(() => events.every(({ got }) => got.length >= count), `${count} events each`);

describe.each(transports)('over %s', (transport) => {
  const subscribe = (as: string, query: string, variables?: object) =>
    subscribeOver(transport, service, as, query, variables);

  it('the bytes of a pane are executed once for all who watch it, whoever they are and wherever they came back', async () => {
    service.accounts.let('ann-streams', {
      ...service.accounts.viewer('ann'),
      credentialId: 'another',
      scopes: new Set(['STREAM']),
    });
    service.fleet.outputs.set(0, [snapshot, chunk]);
    const all = ['ann', 'bob', 'ann-streams', 'bob'].map((as, at) =>
      subscribe(as, watch, { pane: paneId(), after: at > 1 ? `at-${at}` : null }),
    );
    await number(all, 2);
    expect(await executions(service.url)).toBe(2);
    for (const { got } of all)
      expect(got).toEqual([
        { data: { paneOutput: { __typename: 'PaneSnapshot', text: 'screen' } } },
        {
          data: {
            paneOutput: {
              __typename: 'PaneChunk',
              text: '\x1b[1mé\x1b[0m',
              data: Buffer.from('\x1b[1mé\x1b[0m').toString('base64'),
            },
          },
        },
      ]);
    for (const { leave } of all) leave();
  });

  it('who has got all is sent what comes in that very turn, and asks for nothing meanwhile', async () => {
    const waiting: PaneOutputEvent[] = [snapshot];
    let ring = () => {};
    let asked = 0;
    async function* events(): AsyncGenerator<PaneOutputEvent> {
      for (;;) {
        asked += 1;
        const next = waiting.shift();
        if (next !== undefined) yield next;
        else await new Promise<void>((resolve) => (ring = resolve));
      }
    }
    const lane: AtOnce<PaneOutputEvent> = {
      take: () => waiting.shift(),
      wait(wake) {
        ring = wake;
        return waiting.length === 0;
      },
    };
    service.fleet.output = () => Object.assign(events(), { [atOnce]: lane });
    const one = subscribe('ann', watch, { pane: paneId() });
    for (let count = 1; count < 5; count++) {
      await number([one], count);
      waiting.push({ ...chunk, cursor: `at-${count}` });
      ring();
      expect(waiting).toEqual([]);
    }
    await number([one], 5);
    expect(asked).toBe(1);
    one.leave();
  });

  it('what was asked in another way is executed for itself', async () => {
    service.fleet.outputs.set(0, [chunk]);
    const all = [
      subscribe('ann', watch, { pane: paneId() }),
      subscribe('ann', watch, { pane: paneId(), controls: 'STRIPPED' }),
      subscribe('ann', watch.replaceAll('data', 'bytes: data'), { pane: paneId() }),
    ];
    await number(all, 1);
    expect(await executions(service.url)).toBe(3);
    expect(all.map(({ got }) => Object.keys(got[0]?.data?.paneOutput as object))).toEqual([
      ['__typename', 'text', 'data'],
      ['__typename', 'text', 'data'],
      ['__typename', 'text', 'bytes'],
    ]);
    expect(JSON.stringify(all[1]?.got)).not.toContain('[1m');
    for (const { leave } of all) leave();
  });

  it('a change of a listing is executed once for all who may see the same', async () => {
    const all = ['ann', 'bob', 'ann'].map((as) => subscribe(as, follow('listing { version }')));
    await number(all, 2);
    const before = await executions(service.url);
    service.fleet.set(listing(ann, [], { version: 'v2' }));
    await number(all, 3);
    expect(await executions(service.url)).toBe(before + 1);
    for (const { got } of all) expect(JSON.stringify(got[2])).toContain('"v2"');
    for (const { leave } of all) leave();
  });

  it('what one may see and another may not is never given to the other', async () => {
    const screens =
      'tmuxServers { sessions { windows { panes { capture { ... on PaneCapture { text } } } } } }';
    const [bob, ana, dev] = ['bob', 'ana', 'dev'].map((as) => subscribe(as, follow(screens)));
    if (bob === undefined || ana === undefined || dev === undefined) throw new Error('nobody');
    await number([bob, ana], 2);
    await number([dev], 1);
    for (const version of ['v2', 'v3']) {
      const seen = [bob, ana].map(({ got }) => got.length);
      service.fleet.set(listing(ann, [server(ann, 1, { sessions: [session(0)] })], { version }));
      await eventually(
        () => [bob, ana].every(({ got }, at) => got.length > (seen[at] ?? 0)),
        'the change',
      );
    }
    expect(JSON.stringify(bob.got)).toContain('screen of %0');
    expect(JSON.stringify(bob.got)).not.toContain('FORBIDDEN');
    expect(JSON.stringify(ana.got)).toContain('FORBIDDEN');
    expect(JSON.stringify(ana.got)).not.toContain('screen of');
    expect(JSON.stringify(dev.got)).not.toContain('ListingSnapshot');
    const requestIds = ana.got.flatMap(({ errors = [] }) =>
      errors.map(({ extensions }) => extensions.requestId),
    );
    expect(requestIds.length).toBeGreaterThan(0);
    for (const each of [bob, ana, dev]) each.leave();
  });

  it('an error names the request of each', async () => {
    const screens =
      'tmuxServers { sessions { windows { panes { capture { ... on PaneCapture { text } } } } } }';
    const all = ['ana', 'ana'].map((as) => subscribe(as, follow(screens)));
    await number(all, 2);
    const ids = all.map(({ got }) => got.flatMap(({ errors = [] }) => errors)[0]?.extensions);
    expect(ids[0]?.code).toBe('FORBIDDEN');
    expect(ids[0]?.requestId).not.toBe(ids[1]?.requestId);
    for (const { leave } of all) leave();
  });

  it('whose authority ends is ended alone, while the others go on', async () => {
    service.fleet.outputs.set(0, [snapshot]);
    const [one, other] = ['ann', 'bob'].map((as) => subscribe(as, watch, { pane: paneId() }));
    const followers = ['ann', 'bob'].map((as) => subscribe(as, follow('listing { version }')));
    if (one === undefined || other === undefined) throw new Error('nobody');
    await number([one, other], 1);
    await number(followers, 2);
    service.accounts.setRole('bob', 'DEVELOPER');
    await eventually(() => other.got.length === 2, 'its end');
    expect(other.got[1]).toEqual({
      data: { paneOutput: { __typename: 'PaneClosed', closeReason: 'PERMISSION_WITHDRAWN' } },
    });
    service.fleet.set(listing(ann, [], { version: 'v2' }));
    await eventually(() => JSON.stringify(followers[0]?.got).includes('v2'), 'the change');
    expect(JSON.stringify(followers[1]?.got)).not.toContain('v2');
    expect(one.got).toHaveLength(1);
    for (const each of [one, other, ...followers]) each.leave();
  });
});

it('eight subscriptions on one socket all get what comes, and queries are answered on it and beside it', async () => {
  const client = socketClient(service, bearer('ann'));
  const got = Array.from({ length: 8 }, () => [] as unknown[]);
  for (const each of got)
    client.subscribe(
      { query: follow('listing { version }') },
      { next: (result) => void each.push(result), error: () => {}, complete: () => {} },
    );
  await eventually(() => got.every(({ length }) => length === 2), 'the state');
  service.fleet.set(listing(ann, [], { version: 'v2' }));
  await eventually(() => got.every(({ length }) => length === 3), 'the change');
  for await (const { data } of client.iterate({ query: '{ viewer { role } }' }))
    expect(data).toEqual({ viewer: { role: 'ADMIN' } });
  expect((await service.query('ann', '{ viewer { role } }')).data).toEqual({
    viewer: { role: 'ADMIN' },
  });
  await client.dispose();
});

it('a thousand followers of a listing all get a change that is executed once', async () => {
  await using many = await startService({ maxSubscriptionsPerActor: 1_000 });
  const { id } = many.accounts.add('ann', 'ADMIN');
  many.fleet.set(listing(id, []));
  const sockets = Array.from({ length: 20 }, () => socketClient(many, bearer('ann')));
  const changes = { first: 0, second: 0 };
  for (const socket of sockets)
    for (let each = 0; each < 50; each++)
      socket.subscribe(
        { query: follow('listing { version }') },
        {
          next: (result) => {
            const text = JSON.stringify(result);
            if (text.includes('"v1"')) changes.first += 1;
            if (text.includes('"v2"')) changes.second += 1;
          },
          error: () => {},
          complete: () => {},
        },
      );
  await eventually(() => changes.first === 1_000, 'a thousand followers', 30_000);
  const before = await executions(many.url);
  many.fleet.set(listing(id, [], { version: 'v2' }));
  await eventually(() => changes.second === 1_000, 'a thousand changes', 30_000);
  expect(await executions(many.url)).toBe(before + 1);
  for (const socket of sockets) await socket.dispose();
});
