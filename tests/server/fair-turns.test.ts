import { Writable } from 'node:stream';
import fc from 'fast-check';
import type { ExecutionResult } from 'graphql';
import { expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { Outlet } from '../../src/server/outlet.ts';
import { sentOn } from '../../src/server/socket-stream.ts';
import { settle } from '../support/fake-clock.ts';
import { localFleet } from '../support/local-fleet.ts';
import { paneIdOf, watchPane } from '../support/pane-clients.ts';
import { memberUuid } from '../support/synthetic-fleet.ts';
import { startServiceOn } from '../support/synthetic-service.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';
import { bearer, socketClient } from '../support/transports.ts';

/** A connection that takes nothing until told to: then all that is in it, and no more. */
class Wire extends Writable {
  readonly taken: string[] = [];
  #goOn: (() => void) | undefined;

  constructor() {
    super({ highWaterMark: 16_384 });
  }

  override _write(bytes: Buffer, _: string, done: () => void): void {
    const id = /"id":"(\w+)"/.exec(bytes.toString('latin1', 0, 40))?.[1];
    if (id !== undefined) this.taken.push(id);
    this.#goOn = done;
  }

  async drain(): Promise<void> {
    for (let left = this.writableLength; left > 0 && this.#goOn !== undefined; ) {
      const before = this.writableLength;
      const goOn = this.#goOn;
      this.#goOn = undefined;
      goOn();
      left -= before - this.writableLength;
    }
    await settle();
  }
}

/** Gives a result for each time that it was told to. */
function told() {
  const waiting: ExecutionResult[] = [];
  let wake = () => {};
  async function* results(): AsyncGenerator<ExecutionResult, void, void> {
    for (;;) {
      const next = waiting.shift();
      if (next !== undefined) yield next;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  }
  return {
    results: results(),
    say: () => {
      waiting.push({ data: { said: 1 } });
      wake();
    },
  };
}

async function* endless(bytes: number): AsyncGenerator<ExecutionResult, void, void> {
  for (;;) yield { data: { text: 'x'.repeat(bytes) } };
}

it('who always has something waits for everybody else after each turn, however large its events are', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 10, max: 100_000 }),
      fc.array(fc.option(fc.nat({ max: 99 }), { freq: 3 }), { minLength: 5, maxLength: 60 }),
      async (bytes, steps) => {
        const wire = new Wire();
        const outlet = new Outlet(wire);
        const socket = { readyState: 1, OPEN: 1 } as WebSocket;
        const quiet = Array.from({ length: 100 }, told);
        const streams = [
          sentOn(socket, outlet, 'noisy', endless(bytes)),
          ...quiet.map(({ results }, at) => sentOn(socket, outlet, `q${at}`, results)),
        ];
        for (const stream of streams) void stream.next();
        await settle();
        const said = new Map<string, number>();
        const turns = () => wire.taken.length;
        for (const who of steps) {
          if (who === null) {
            await wire.drain();
            continue;
          }
          quiet[who]?.say();
          said.set(`q${who}`, (said.get(`q${who}`) ?? 0) + 1);
          await settle();
        }
        // What was full when it was said goes out first; then each has its turn in each round.
        const most = Math.max(...said.values(), 0);
        const from = turns();
        const held = wire.writableLength / bytes;
        for (let round = 0; round < most + 2; round++) await wire.drain();
        for (const [id, times] of said)
          expect(wire.taken.filter((taken) => taken === id)).toHaveLength(times);
        const perRound = Math.ceil(16_384 / bytes) + 1;
        const noisy = wire.taken.slice(from).filter((id) => id === 'noisy').length;
        expect(noisy).toBeLessThanOrEqual(held + (most + 3) * perRound);
        for (const stream of streams) void stream.return();
        wire.destroy();
      },
    ),
    { numRuns: rounds(40, 400) },
  );
});

it('of many panes on one connection one floods, and all others come whole', async () => {
  const others = rounds(12, 48);
  await using local = await localFleet({ memberIds: [memberUuid(1)] });
  const tmux = await local.tmux({ command: ['read x; yes this pane says much'] });
  const counting = 'read x; for i in $(seq 1 40); do echo line $i; sleep 0.05; done; read x';
  for (let at = 0; at < others; at++) await tmux.run('new-window', '-d', counting);
  await using service = await startServiceOn(local.fleet);
  service.accounts.add('ann', 'ADMIN');
  const client = socketClient(service, bearer('ann'));
  const ids: string[] = [];
  for (let at = 0; at <= others; at++) ids.push(await paneIdOf(service.query, `%${at}`));
  const got = ids.map(() => ({ text: '', kinds: [] as string[] }));
  for (const [at, pane] of ids.entries())
    client.subscribe<Record<string, { __typename: string; data?: string }>>(
      { query: watchPane, variables: { pane } },
      {
        next({ data }) {
          const event = data?.paneOutput;
          const mine = got[at];
          if (event === undefined || mine === undefined) return;
          mine.kinds.push(event.__typename);
          if (event.__typename !== 'PaneChunk') return;
          const text = Buffer.from(event.data ?? '', 'base64').toString();
          mine.text = at === 0 ? text.slice(-100) : mine.text + text;
        },
        error: () => {},
        complete: () => {},
      },
    );
  await eventually(() => got.every(({ kinds }) => kinds.length > 0), 'all screens', 30_000);
  for (const at of ids.keys()) await tmux.run('send-keys', '-t', `%${at}`, 'Enter');
  await eventually(
    () => got.slice(1).every(({ text }) => text.includes('line 40\r\n')),
    'all that the others say',
    50_000,
  );
  const flooded = got[0]?.kinds.length ?? 0;
  await eventually(() => (got[0]?.kinds.length ?? 0) > flooded, 'the flood goes on');
  const whole = Array.from({ length: 40 }, (_, at) => `line ${at + 1}\r\n`).join('');
  for (const { text, kinds } of got.slice(1)) {
    expect(text.slice(text.indexOf('line 1\r\n'))).toBe(whole);
    expect(kinds).not.toContain('PaneGap');
  }
  await client.dispose();
});
