import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { PaneOutputEvent } from '../../../src/tmux/model.ts';
import { Screen } from '../../support/terminal.ts';
import { longTier, rounds } from '../../support/tier.ts';
import { untilSame } from '../../support/tmux-screen.ts';
import { eventually } from '../../support/tmux-server.ts';
import { Reading, watchTmux } from '../../support/watched-tmux.ts';

/** Of the log (1 MiB), chunks under way, and a collector that is in no hurry. */
const mostMiB = 160;

test('one who stops reading costs the others nothing: they get every byte, it gets the exact gap', async () => {
  const mib = rounds(20, 50);
  console.log(`slow reader: ${mib} MiB`);
  await using lab = await watchTmux({ columns: 120, rows: 30 });
  const pane = await lab.pane();
  const fast = [0, 1].map(() => counter(lab, pane));
  const slow = stopped(lab, pane);
  for (const { reading } of fast) await eventually(() => reading.events.length > 0, 'a snapshot');
  await slow.first;
  const before = process.memoryUsage().rss;
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
  }, 50);
  // The program says when it was kept waiting for more than a second.
  const program = `
    $| = 1; my ($line, $most) = ("0123456789abcdef" x 6 . "\\n", 0);
    use Time::HiRes "time";
    for (1 .. ${Math.ceil((mib * 1_048_576) / (97 * 100))}) {
      my $at = time; print $line x 100; my $took = time - $at; $most = $took if $took > $most;
    }
    printf "blocked %d ms\\nthe e%s\\n", 1000 * $most, "nd";`;
  const started = performance.now();
  await lab.tmux.run('send-keys', '-t', 'main:', 'clear', 'Enter');
  await lab.tmux.run(
    'respawn-pane',
    '-k',
    '-t',
    'main:',
    `perl -e '${program.replaceAll("'", '"')}'; exec cat`,
  );
  await eventually(
    () => fast.every(({ tail }) => tail().includes('the end')),
    'the end',
    longTier ? 300_000 : 60_000,
  );
  const seconds = (performance.now() - started) / 1_000;
  clearInterval(timer);
  const blocked = Number(/blocked (\d+) ms/.exec(fast[0]?.tail() ?? '')?.[1]);
  const grown = (most - before) / 1_048_576;
  console.log(
    `slow reader: ${(mib / seconds).toFixed(1)} MiB/s, program blocked ${blocked} ms at most, memory grew ${grown.toFixed(0)} MiB`,
  );
  for (const { count, reading } of fast) {
    expect(count()).toBeGreaterThanOrEqual(mib * 1_048_576);
    expect(reading.of('gap')).toEqual([]);
  }
  expect(fast[0]?.count()).toBe(fast[1]?.count());
  expect(blocked).toBeLessThan(1_000);
  expect(grown).toBeLessThan(mostMiB);

  slow.goOn();
  const gap = await slow.reading.first('gap');
  expect(gap.reason).toBe('SLOW_READER');
  const chunksBefore = slow.reading.events.slice(0, slow.reading.events.indexOf(gap));
  const had = chunksBefore.reduce((sum, event) => sum + bytesOf(event), 0);
  const total = fast[0]?.count() ?? 0;
  expect(had + (gap.missedBytes ?? 0)).toBe(total);
  const screen = new Screen();
  await untilSame(screen, slow.reading, lab.tmux, 'main:');
});

test('while a program writes without end and its reader never reads, others are answered', async () => {
  const seconds = rounds(4, 60);
  console.log(`endless output: ${seconds} s`);
  await using lab = await watchTmux({ columns: 80, rows: 24 });
  const other = await lab.tmux.run('split-window', '-dPF', '#{pane_id}', '-t', 'main:', 'exec sh');
  const [pane, besides] = [await lab.pane(), await lab.pane(other)];
  const slow = stopped(lab, pane);
  await slow.first;
  const reading = lab.watch(besides);
  await reading.first('snapshot');
  const before = process.memoryUsage().rss;
  await lab.tmux.run('send-keys', '-t', 'main:.0', 'yes', 'Enter');
  const end = performance.now() + 1_000 * seconds;
  let longest = 0;
  for (let n = 0; performance.now() < end; n++) {
    const from = performance.now();
    await lab.tmux.run('send-keys', '-t', other, `echo n""${n}.`, 'Enter');
    await eventually(() => reading.bytes.includes(`\nn${n}.`), 'the other pane');
    await lab.fleet.capture(besides, 0);
    longest = Math.max(longest, performance.now() - from);
    await wait(100);
  }
  const grown = (process.memoryUsage().rss - before) / 1_048_576;
  console.log(
    `endless output: others waited ${longest.toFixed(0)} ms at most, memory grew ${grown.toFixed(0)} MiB`,
  );
  expect(longest).toBeLessThan(3_000);
  expect(grown).toBeLessThan(mostMiB);
  await lab.tmux.run('send-keys', '-t', 'main:.0', 'C-c', '');
  await wait(500);
  slow.goOn();
  const gap = await slow.reading.first('gap');
  expect(gap.missedBytes).toBeGreaterThan(1_000_000);
  const screen = new Screen();
  await untilSame(screen, slow.reading, lab.tmux, 'main:.0');
});

type Lab = Awaited<ReturnType<typeof watchTmux>>;
type Pane = Awaited<ReturnType<Lab['pane']>>;

function bytesOf(event: PaneOutputEvent): number {
  return event.kind === 'chunk' ? event.data.length : 0;
}

/** Reads on, and keeps a count and the last bytes only. */
function counter(lab: Lab, pane: Pane) {
  let count = 0;
  let tail = Buffer.alloc(0);
  const reading = new Reading(
    (signal) => lab.fleet.output(pane, undefined, signal),
    (event) => {
      count += bytesOf(event);
      if (event.kind !== 'chunk') return;
      reading.events.pop();
      tail = Buffer.concat([tail, event.data]).subarray(-400);
    },
  );
  return { reading, count: () => count, tail: () => tail.toString() };
}

/** Takes the first event and then none, until told. */
function stopped(lab: Lab, pane: Pane) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const first = Promise.withResolvers<void>();
  const reading = new Reading(
    (signal) => lab.fleet.output(pane, undefined, signal),
    async () => {
      first.resolve();
      await promise;
    },
  );
  return { reading, first: first.promise, goOn: resolve };
}
