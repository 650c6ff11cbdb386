import { createHash, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type CuttingProxy, cuttingProxy } from '../support/cutting-proxy.ts';
import { localFleet } from '../support/local-fleet.ts';
import { type PaneEvent, paneIdOf, transports, watchPane } from '../support/pane-clients.ts';
import { memberUuid } from '../support/synthetic-fleet.ts';
import { startServiceOn } from '../support/synthetic-service.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';

const end = 'THE-END-OF-IT';
const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** As much as is printed at once: the log still holds it for a reader who has had nothing of it. */
const burst = 400_000;

/** Writes a file in pieces of any size, at any pace; goes on after each burst when it is told to. */
const printing = (file: string) => `stty raw -echo; perl -e '
  $| = 1; open F, "<", "${file}" or die;
  for (my $rest = 0; ; $rest -= $size) {
    if ($rest <= 0) { sysread STDIN, $key, 1; $rest += ${burst}; }
    $size = sysread F, $piece, 1 + int rand 4096 or last;
    syswrite STDOUT, $piece; select undef, undef, undef, 0.01 * rand;
  }'; printf ${end}; exec sleep 1000`;

it('every byte arrives, once and in order, however often the connection is cut', async () => {
  const cuts = rounds(20, 200);
  console.log(`resume: ${cuts} cuts on each transport`);
  await using local = await localFleet({ memberIds: [memberUuid(1)] });
  const file = join(local.directory, 'bytes');
  // A first byte that continues a character would ask for a second screen.
  const bytes = Buffer.concat([Buffer.from('-'), randomBytes(cuts * 30_000)]);
  await writeFile(file, bytes);
  const tmux = await local.tmux({ command: [printing(file)] });
  await using service = await startServiceOn(local.fleet);
  service.accounts.add('ann', 'ADMIN');
  const pane = await paneIdOf(service.query);
  // Also before the answer begins, and in the middle of whatever is being sent.
  const allow = (so: number) => (so < cuts ? Math.floor(Math.random() * 40_000) : undefined);

  const sizes = { SSE: -1, WebSocket: -1 };
  const read = async (name: 'SSE' | 'WebSocket', proxy: CuttingProxy) => {
    const seen: PaneEvent[] = [];
    const got: Buffer[] = [];
    let after: string | null = null;
    const ended = () => sizes[name] >= bytes.length + end.length;
    while (!ended()) {
      try {
        for await (const event of transports[name](proxy.url, watchPane, { pane, after })) {
          after = event.cursor ?? after;
          if (event.__typename !== 'PaneChunk') {
            seen.push(event);
            sizes[name] = 0;
            continue;
          }
          const piece = Buffer.from(event.data ?? '', 'base64');
          got.push(piece);
          sizes[name] += piece.length;
          if (ended()) break;
        }
      } catch {
        // Cut.
      }
      await wait(10);
    }
    return { seen, all: Buffer.concat(got) };
  };
  await using first = await cuttingProxy(service.url, allow);
  await using second = await cuttingProxy(service.url, allow);
  const both = Promise.all([read('SSE', first), read('WebSocket', second)]);
  for (let had = 0; had < bytes.length; had += burst) {
    await eventually(
      () => Math.min(sizes.SSE, sizes.WebSocket) >= had,
      'both to come along',
      60_000,
    );
    await tmux.run('send-keys', '-t', '%0', 'x');
  }
  for (const { seen, all } of await both) {
    expect(seen.map(({ __typename }) => __typename)).toEqual(['PaneSnapshot']);
    expect(all.subarray(-end.length).toString()).toBe(end);
    expect(digest(all.subarray(0, -end.length))).toBe(digest(bytes));
  }
  expect([first.cuts, second.cuts]).toEqual([cuts, cuts]);
});
