import { fork, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { decodeCursor } from '../../src/tmux/output/output-cursor.ts';
import type { HashingReaders, Read } from '../support/hashing-readers.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.ts';
import { longTier, rounds } from '../support/tier.ts';
import { eventually, startTmux, type TmuxServer } from '../support/tmux-server.ts';

const line = '0123456789abcdef'.repeat(6);
const mib = rounds(8, 50);
const runs = rounds(1, 3);
const mostMiB = 64;
/** One short run says little of the time on a machine that does other things: 1.5 is for the median of three. */
const mostTimes = rounds(4, 1.5);
const hundreds = Math.ceil((mib * 1_048_576) / ((line.length + 2) * 100));
const last = 'the end';
const printed = hundreds * 100 * (line.length + 2) + last.length + 2;

/** Prints all lines in the pane, and says how long that took the program, milliseconds; later the last line. */
async function print(tmux: TmuxServer, folder: string): Promise<number> {
  const said = join(folder, 'took');
  await rm(said, { force: true });
  const program = `use Time::HiRes "time"; $| = 1; my $at = time; my $hundred = "${line}\\n" x 100;
    print $hundred for 1 .. ${hundreds};
    open my $said, ">", "${said}.new"; printf $said "%d", 1000 * (time - $at); close $said;
    rename "${said}.new", "${said}"; sleep 1; print "${last}\\n"; sleep 1000`;
  await tmux.run('respawn-pane', '-k', '-t', 'main:', 'perl', '-e', program);
  const text = await eventually(
    () => readFile(said, 'utf8').catch(() => undefined),
    'the program is done',
    longTier ? 400_000 : 50_000,
  );
  return Number(text);
}

/** What is least: a control client whose output goes nowhere. */
async function besidePlainReader(tmux: TmuxServer, folder: string): Promise<number> {
  await eventually(async () => (await tmux.run('list-clients')) === '', 'nobody is attached');
  const control = `'${tmux.binary}' -u -S '${tmux.socket}' -C attach -t main -f ignore-size | cat > /dev/null`;
  const client = spawn('sh', ['-c', control], { stdio: ['pipe', 'ignore', 'inherit'] });
  await eventually(async () => (await tmux.run('list-clients')) !== '', 'it is attached');
  const took = await print(tmux, folder);
  client.stdin.end();
  await once(client, 'exit');
  await tmux.run('respawn-pane', '-k', '-t', 'main:', 'sleep 1000');
  return took;
}

/** The same beside eighteen who read and two who do not, all of whom get what they should. */
async function besideTwenty(
  tmux: TmuxServer,
  folder: string,
  service: ServiceProcess,
  begun: () => Promise<void>,
): Promise<number> {
  const child = fork(join(import.meta.dirname, '../support/hashing-readers.ts'));
  const ask = async <T>(message: HashingReaders | 'look' | 'go on') => {
    const answered = once(child, 'message');
    child.send(message);
    return (await answered)[0] as T;
  };
  try {
    await ask({
      ...{ url: service.url, key: service.key, readers: 18, stopped: 2, last },
      pane: await paneOf(service),
      ...{ begins: line, length: 100 * hundreds * (line.length + 4) },
    });
    await begun();
    const tookMs = await print(tmux, folder);
    const all = await eventually(
      async () => {
        const read = await ask<Read[]>('look');
        const told = read.slice(0, 18).filter(({ done, gaps }) => done || gaps.length > 0);
        return told.length === 18 ? read : undefined;
      },
      'all who read come to the end',
      60_000,
    );
    for (const { sha256, gaps } of all.slice(0, 18)) {
      expect(gaps).toEqual([]);
      expect(sha256).toBe(whole());
    }
    await ask('go on');
    const slow = await eventually(async () => {
      const read = (await ask<Read[]>('look')).slice(18);
      return read.every(({ gaps }) => gaps[0]?.after !== undefined) ? read : undefined;
    }, 'the gaps');
    for (const { gaps, had, firstCursor } of slow) {
      expect(gaps).toHaveLength(1);
      const [gap] = gaps;
      expect(gap?.gapReason).toBe('SLOW_READER');
      expect(had).toBe(offset(gap?.cursor) - offset(firstCursor));
      expect(gap?.missedBytes).toBe(offset(gap?.after) - offset(gap?.cursor));
      expect(had + (gap?.missedBytes ?? 0)).toBe(printed);
      // It goes on where the others have come to.
      expect(offset(gap?.after)).toBe(offset(all[0]?.lastCursor));
    }
    return tookMs;
  } finally {
    const gone = once(child, 'exit');
    child.disconnect();
    await gone;
  }
}

it('two of twenty who read nothing cost nobody anything: all others get every byte, these the exact gap, memory and the program stay as they are', async () => {
  await using scratch = await scratchDirectory();
  const folder = scratch.path;
  await using tmux = await startTmux({ directory: folder, columns: 120, command: ['sleep 1000'] });
  await using service = await startServiceProcess({
    folder,
    environment: { MUXWARDEN_LINGER_MS: '100' },
  });
  const resident = async () =>
    Number(/^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${service.pid}/status`, 'utf8'))?.[1]) /
    1_024;
  let [before, most] = [0, 0];
  const begun = async () => {
    before ||= await resident();
  };
  const timer = setInterval(async () => {
    most = Math.max(most, await resident());
  }, 50);
  const took: [plain: number, twenty: number][] = [];
  for (let run = 0; run < runs; run++)
    took.push([
      await besidePlainReader(tmux, folder),
      await besideTwenty(tmux, folder, service, begun),
    ]);
  clearInterval(timer);
  const times = took.map(([plain, twenty]) => twenty / plain).sort((one, other) => one - other);
  const inTheMiddle = times[Math.floor(runs / 2)] ?? Number.NaN;
  console.log(
    `slow readers: ${mib} MiB, the program took ${times.map((each) => each.toFixed(2)).join(', ')} times as long as beside a plain control client (${took.flat().join(', ')} ms); memory grew ${(most - before).toFixed(0)} MiB`,
  );
  expect(most - before).toBeLessThan(mostMiB);
  expect(inTheMiddle).toBeLessThan(mostTimes);
});

function whole(): string {
  const hash = createHash('sha256');
  const hundred = `${line}\\r\\n`.repeat(100);
  for (let at = 0; at < hundreds; at++) hash.update(hundred);
  return hash.digest('hex');
}

function paneOf(service: ServiceProcess): Promise<string> {
  return eventually(async () => {
    const { data } = await service.query<{ panes: { nodes: { id: string }[] } }>(
      '{ panes { nodes { id } } }',
    );
    return data?.panes.nodes[0]?.id;
  }, 'the pane is listed');
}

function offset(cursor: string | undefined): number {
  return decodeCursor(cursor ?? '')?.offset ?? Number.NaN;
}
