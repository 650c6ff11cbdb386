import { Writable } from 'node:stream';
import { buildSchema, parse, validateSubscriptionArgs } from 'graphql';
import { describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { type AtOnce, atOnce, type Offer } from '../../src/concurrency/prompt.ts';
import type { Context } from '../../src/resolvers/context.ts';
import { stream } from '../../src/resolvers/stream.ts';
import { Outlet } from '../../src/server/outlet.ts';
import { SharedResults } from '../../src/server/shared-results.ts';
import { sentOn } from '../../src/server/socket-stream.ts';
import { settle } from '../support/fake-clock.ts';

const schema = buildSchema(
  'type Query { x: Int } type Subscription { said: Said } type Said { x: Int late: Int }',
);

/** What is said, at once where somebody waits for it in that way; offered, or rung for. */
function saying(isOffered: boolean) {
  const waiting: object[] = [];
  let ring = () => {};
  let offer: Offer<object> | undefined;
  const lane: AtOnce<object> = {
    take: () => waiting.shift(),
    wait(wake, take) {
      if (waiting.length > 0) return false;
      ring = wake;
      offer = isOffered ? take : undefined;
      return true;
    },
  };
  const events: AsyncIterableIterator<object, void> = {
    async next() {
      while (waiting.length === 0) await new Promise<void>((resolve) => (ring = resolve));
      return { done: false, value: waiting.shift() ?? {} };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
  return {
    source: stream(() => Object.assign(events, { [atOnce]: lane })),
    say(said: object) {
      const event = { said };
      if (offer?.(event) === true) return;
      offer = undefined;
      waiting.push(event);
      ring();
    },
  };
}

function sending(isOffered: boolean, selection: string, highWaterMark = 65_536) {
  const sent: string[] = [];
  let full = false;
  const wire = new Writable({
    highWaterMark,
    write(bytes, _, done) {
      sent.push(bytes.toString());
      if (!full) done();
    },
  });
  const { source, say } = saying(isOffered);
  const document = parse(`subscription { said { ${selection} } }`);
  const validated = validateSubscriptionArgs({ schema, document });
  if (!('schema' in validated)) throw validated[0];
  const viewer = { member: { role: 'ADMIN' }, scopes: new Set(), memberIds: null };
  const results = new SharedResults().of(
    source,
    validated,
    { viewer } as unknown as Context,
    () => {},
  );
  const socket = { readyState: 1, OPEN: 1 } as WebSocket;
  const outlet = new Outlet(wire);
  const last = sentOn(socket, outlet, 'i', results).next();
  const values = () => sent.map((text) => /"said":(.*)\}\}\}$/.exec(text)?.[1]);
  return { say, values, last, fill: () => (full = true) };
}

describe.each([
  ['offered', true],
  ['rung for', false],
] as const)('what is %s', (_, isOffered) => {
  it('after the first event each is sent in the very turn in which it is said', async () => {
    const { say, values } = sending(isOffered, 'x');
    await settle();
    say({ x: 0 });
    await settle();
    for (let x = 1; x < 5; x++) {
      say({ x });
      expect(values()).toHaveLength(x + 1);
    }
    expect(values()).toEqual([0, 1, 2, 3, 4].map((x) => `{"x":${x}}`));
  });

  it('one that takes time is sent when it is made, and before what was said later', async () => {
    const { say, values } = sending(isOffered, 'x late');
    await settle();
    say({ x: 0, late: 0 });
    await settle();
    const { promise, resolve } = Promise.withResolvers<number>();
    say({ x: 1, late: () => promise });
    say({ x: 2, late: 2 });
    await settle();
    expect(values()).toHaveLength(1);
    resolve(1);
    await settle();
    say({ x: 3, late: 3 });
    expect(values()).toEqual([0, 1, 2, 3].map((x) => `{"x":${x},"late":${x}}`));
  });

  it('one with an error is for the protocol to send', async () => {
    const { say, values, last } = sending(isOffered, 'x');
    await settle();
    say({ x: 0 });
    await settle();
    say({ x: 'no number' });
    const { value } = await last;
    expect(value?.errors).toHaveLength(1);
    expect(values()).toHaveLength(1);
  });

  it('a full connection is sent nothing', async () => {
    const { say, values, fill } = sending(isOffered, 'x', 10);
    await settle();
    say({ x: 0 });
    await settle();
    fill();
    say({ x: 1 });
    say({ x: 2 });
    await settle();
    expect(values()).toHaveLength(2);
  });
});
