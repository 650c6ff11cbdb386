import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { PaneOutputEvent } from '../../../src/tmux/pane-events.ts';
import { Screen } from '../../support/terminal.ts';
import { longTier, rounds } from '../../support/tier.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { untilSame } from '../../support/tmux-screen.ts';
import { eventually } from '../../support/tmux-server.ts';
import { Reading, watchTmux } from '../../support/watched-tmux.ts';

/** Of the log (1 MiB), chunks under way, and a collector that is in no hurry. */
const mostMiB = 160;
const readers = 18;
const line = '0123456789abcdef'.repeat(6);

test('two of twenty who stop reading cost the others nothing: they get every byte, the two get the exact gap', async () => {
  const mib = rounds(20, 50);
  const lines = Math.ceil((mib * 1_048_576) / ((line.length + 1) * 100));
  console.log(`slow reader: ${mib} MiB`);
  await using lab = await watchTmux({ columns: 120, rows: 30 });
  const pane = await lab.pane();
  const fast = Array.from({ length: readers }, () =>
    counter(lab, pane, 100 * lines * (line.length + 2)),
  );
  const slow = [stopped(lab, pane), stopped(lab, pane)];
  for (const { reading } of fast) await eventually(() => reading.events.length > 0, 'a snapshot');
  for (const { first } of slow) await first;
  const before = process.memoryUsage().rss;
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss);
  }, 50);
  // The program says when it was kept waiting for more than a second.
  const program = `
    $| = 1; my ($line, $most) = ("${line}\\n", 0);
    use Time::HiRes "time";
    for (1 .. ${lines}) {
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
  const printed = createHash('sha256');
  for (let at = 0; at < lines; at++) printed.update(`${line}\r\n`.repeat(100));
  const whole = printed.digest('hex');
  for (const { count, sha256, reading } of fast) {
    expect(count()).toBeGreaterThanOrEqual(mib * 1_048_576);
    expect(reading.of('gap')).toEqual([]);
    expect(sha256()).toBe(whole);
  }
  expect(blocked).toBeLessThan(1_000);
  expect(grown).toBeLessThan(mostMiB);

  for (const { goOn, reading } of slow) {
    goOn();
    const gap = await reading.first('gap');
    expect(gap.reason).toBe('SLOW_READER');
    const chunksBefore = reading.events.slice(0, reading.events.indexOf(gap));
    const had = chunksBefore.reduce((sum, event) => sum + bytesOf(event), 0);
    const total = fast[0]?.count() ?? 0;
    expect(had + (gap.missedBytes ?? 0)).toBe(total);
    await untilSame(new Screen(), reading, lab.tmux, 'main:');
  }
});

test('where the event loop is too busy to read, programs go on all the same, and the gap and a new screen are told', async () => {
  await using stack = new AsyncDisposableStack();
  const watched = await Promise.all(
    presentClasses.map(async (version) => {
      const lab = stack.use(await watchTmux({ version, columns: 80, rows: 24 }));
      const reading = lab.watch(await lab.pane());
      await reading.first('snapshot');
      return { version, lab, reading };
    }),
  );
  let busy = true;
  const spin = () => {
    for (const until = performance.now() + 200; performance.now() < until; );
    if (busy) setTimeout(spin, 1);
  };
  spin();
  try {
    await Promise.all(
      watched.map(async ({ version, lab, reading }) => {
        await lab.tmux.run('send-keys', '-t', 'main:', 'yes held-up-no-more', 'Enter');
        const gap = await reading.first('gap', 40_000);
        const reason = version === '3.1c' ? 'RECONNECTED' : 'OVERLOAD';
        expect(gap, version).toMatchObject({ reason, missedBytes: null });
        await lab.tmux.run('send-keys', '-t', 'main:', 'C-c', '');
      }),
    );
  } finally {
    busy = false;
  }
  for (const { lab, reading } of watched) {
    await untilSame(new Screen(), reading, lab.tmux, 'main:', 20_000);
    const at = reading.events.findIndex(({ kind }) => kind === 'gap');
    expect(reading.events[at + 1]?.kind).toBe('snapshot');
  }
});

test('where the event loop stands still for 300 ms now and then, nothing is lost of 400 KB a second', async () => {
  await using stack = new AsyncDisposableStack();
  const watched = await Promise.all(
    presentClasses.map(async (version) => {
      const lab = stack.use(await watchTmux({ version, columns: 250, rows: 24 }));
      const reading = lab.watch(await lab.pane());
      await reading.first('snapshot');
      return { version, lab, reading };
    }),
  );
  const program =
    'use Time::HiRes "sleep"; $| = 1; for (1 .. 150) { print "x" x 4094, "\\n"; sleep .01; } print "the e", "nd\\n";';
  for (const { lab } of watched)
    await lab.tmux.run('send-keys', '-t', 'main:', `clear; perl -e '${program}'`, 'Enter');
  const isOver = () => watched.every(({ reading }) => reading.bytes.includes('the end'));
  for (const end = performance.now() + 30_000; !isOver() && performance.now() < end; ) {
    for (const until = performance.now() + 300; performance.now() < until; );
    await wait(300);
  }
  for (const { version, reading } of watched) {
    expect(reading.of('gap'), version).toEqual([]);
    const lines = reading.bytes.toString().match(/x{4094}\r\n/g);
    expect(lines, version).toHaveLength(150);
  }
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

/** Reads on, and keeps a count, the digest of the lines and the last bytes only. */
function counter(lab: Lab, pane: Pane, wanted: number) {
  let count = 0;
  const hash = createHash('sha256');
  let hashed: number | undefined;
  let tail = Buffer.alloc(0);
  const reading = new Reading(
    (signal) => lab.fleet.output(pane, undefined, signal),
    (event) => {
      count += bytesOf(event);
      if (event.kind !== 'chunk') return;
      reading.events.pop();
      const from = hashed === undefined ? Buffer.from(event.data).indexOf(line) : 0;
      if (from < 0) return;
      const part = event.data.subarray(from, from + wanted - (hashed ?? 0));
      hash.update(part);
      hashed = (hashed ?? 0) + part.length;
      tail = Buffer.concat([tail, event.data]).subarray(-400);
    },
  );
  return {
    ...{ reading, count: () => count, sha256: () => hash.copy().digest('hex') },
    tail: () => tail.toString(),
  };
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
