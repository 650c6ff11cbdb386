import { getEventListeners } from 'node:events';
import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Context } from '../../src/resolvers/context.ts';
import { paneOutput } from '../../src/resolvers/pane-output.ts';
import { localFleet } from '../support/local-fleet.ts';
import { paneIdOf, watchPane } from '../support/pane-clients.ts';
import { descendants } from '../support/process-table.ts';
import { memberUuid } from '../support/synthetic-fleet.ts';
import { startServiceOn } from '../support/synthetic-service.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';

const subscribe = (pane: string) => ({ query: watchPane, variables: { pane } });

/** A WebSocket that subscribed; it goes away after that time, by its protocol or without a word. */
async function overWebSocket(url: string, pane: string, ms: number, how: string): Promise<void> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws');
  const gone = new Promise((resolve) => socket.once('close', resolve));
  await new Promise((resolve) => socket.once('open', resolve));
  const send = (message: object) => socket.send(JSON.stringify(message));
  send({ type: 'connection_init', payload: { Authorization: 'Bearer mw_ann' } });
  await new Promise((resolve) => socket.once('message', resolve));
  send({ id: '1', type: 'subscribe', payload: subscribe(pane) });
  await wait(ms);
  if (how === 'unsubscribe') send({ id: '1', type: 'complete' });
  if (how === 'destroy') socket.terminate();
  else socket.close();
  await gone;
}

/** An event stream, of which it may read nothing, left likewise. */
async function overSse(url: string, pane: string, ms: number, how: string): Promise<void> {
  const body = JSON.stringify(subscribe(pane));
  const { host, hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const gone = new Promise((resolve) => socket.once('close', resolve));
  socket.on('error', () => undefined);
  if (how !== 'unread') socket.resume();
  socket.write(
    `POST /graphql HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer mw_ann\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  await wait(ms);
  if (how === 'close') socket.end();
  else socket.resetAndDestroy();
  socket.resume();
  await gone;
}

it('subscribed and left in any way and at any moment, nothing is left of it', async () => {
  const cycles = rounds(60, 1_000);
  console.log(`streams left: ${cycles} cycles on each transport`);
  await using local = await localFleet({
    memberIds: [memberUuid(1)],
    environment: { MUXWARDEN_LINGER_MS: '0' },
  });
  const tmux = await local.tmux({ command: ['while sleep 0.01; do echo something; done'] });
  await using service = await startServiceOn(local.fleet);
  service.accounts.add('ann', 'ADMIN');
  const pane = await paneIdOf(service.query);
  const serverPid = await tmux.pid();
  const descriptors = async (pid: number | 'self') => (await readdir(`/proc/${pid}/fd`)).length;
  const look = async () => {
    const figures = await (await fetch(`${service.url}/metrics`)).text();
    // Of our own: other test files have theirs at the same time.
    const children = (await descendants(process.pid)).filter(({ words }) =>
      words.includes('control'),
    );
    return {
      clients: await tmux.run('list-clients'),
      ofServer: await descriptors(serverPid),
      helpers: children.length,
      waiting: service.accounts.changed.waiting,
      subscriptions: /^muxwarden_subscriptions (\d+)$/m.exec(figures)?.[1],
    };
  };
  const moment = () => Math.floor(Math.random() ** 3 * 200);
  const cycle = async (number: number) => {
    const how = ['unsubscribe', 'destroy', 'close', 'unread'][number % 4] ?? '';
    await Promise.all([
      overWebSocket(service.url, pane, moment(), how),
      overSse(service.url, pane, moment(), how),
    ]);
  };
  // What is opened once and kept: the helper, pools, loaded modules.
  for (let number = 0; number < 8; number++) await cycle(number);
  const settled = async () => (await tmux.run('list-clients')) === '';
  await eventually(settled, 'nobody is attached');
  await wait(500);
  const [before, own] = [await look(), await descriptors('self')];
  expect(before).toMatchObject({ clients: '', waiting: 0, subscriptions: '0' });
  for (let number = 0; number < cycles; number++) await cycle(number);
  await eventually(
    async () => JSON.stringify(await look()) === JSON.stringify(before),
    'everything is as before',
    20_000,
  ).catch(async () => expect(await look()).toEqual(before));
  // A connection that `fetch` keeps open may come or go.
  expect(await descriptors('self')).toBeLessThanOrEqual(own + 2);
});

it('an iterator that is never read, or is left before it is, listens to nobody', async () => {
  await using local = await localFleet({ memberIds: [memberUuid(1)] });
  await local.tmux();
  await using service = await startServiceOn(local.fleet);
  service.accounts.add('ann', 'ADMIN');
  const { servers } = await local.refresh();
  const { generation, ref } = servers?.[0] ?? {};
  if (generation == null || ref === undefined) throw new Error('no server');
  const [caller, draining] = [new AbortController(), new AbortController()];
  const { accounts } = service;
  const parts = { viewer: accounts.viewer('ann'), accounts, fleet: local.fleet };
  // Only what a stream looks at.
  const context = {
    ...parts,
    signal: caller.signal,
    draining: draining.signal,
  } as Partial<Context>;
  const calls = local.fleet.figures().helperCalls;
  const cycles = rounds(60, 1_000);
  for (let number = 0; number < cycles; number++) {
    const events = paneOutput(context as Context, { ...ref, generation, pane: 0 }, null);
    if (number % 2 === 0) await events.return?.();
  }
  const listeners = [caller, draining].map(({ signal }) => getEventListeners(signal, 'abort'));
  expect(listeners).toEqual([[], []]);
  expect([accounts.changed.waiting, local.fleet.figures().helperCalls]).toEqual([0, calls]);
});
