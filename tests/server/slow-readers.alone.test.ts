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
/** Wanted are 64 for 50 MiB, which docs/performance.md says what is missing of. */
const mostMiB = rounds(96, 192);
const hundreds = Math.ceil((mib * 1_048_576) / ((line.length + 2) * 100));

/** Prints all lines in the pane, and says how long that took the program, milliseconds. */
async function print(tmux: TmuxServer, folder: string): Promise<number> {
  const said = join(folder, 'took');
  await rm(said, { force: true });
  const program = `use Time::HiRes "time"; $| = 1; my $at = time; my $hundred = "${line}\\n" x 100;
    print $hundred for 1 .. ${hundreds};
    open my $said, ">", "${said}.new"; printf $said "%d", 1000 * (time - $at); close $said;
    rename "${said}.new", "${said}"; sleep 1; print "the e", "nd\\n"; sleep 1000`;
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
  const control = `'${tmux.binary}' -u -S '${tmux.socket}' -C attach -t main -f ignore-size | cat > /dev/null`;
  const client = spawn('sh', ['-c', control], { stdio: ['pipe', 'ignore', 'inherit'] });
  await eventually(async () => (await tmux.run('list-clients')) !== '', 'it is attached');
  const took = await print(tmux, folder);
  client.stdin.end();
  await once(client, 'exit');
  return took;
}

it('two of twenty who read nothing cost nobody anything: all others get every byte, these the exact gap, memory and the program stay as they are', async () => {
  console.log(`slow readers: ${mib} MiB`);
  await using scratch = await scratchDirectory();
  await using tmux = await startTmux({
    directory: scratch.path,
    columns: 120,
    command: ['sleep 1000'],
  });
  const plainMs = await besidePlainReader(tmux, scratch.path);
  await eventually(async () => (await tmux.run('list-clients')) === '', 'nobody is attached');

  await using service = await startServiceProcess({ folder: scratch.path });
  const resident = async () =>
    Number(/^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${service.pid}/status`, 'utf8'))?.[1]) /
    1_024;
  const child = fork(join(import.meta.dirname, '../support/hashing-readers.ts'));
  const ask = async <T>(message: HashingReaders | 'look' | 'go on') => {
    const answered = once(child, 'message');
    child.send(message);
    return (await answered)[0] as T;
  };
  try {
    await ask({
      ...{ url: service.url, key: service.key, readers: 18, stopped: 2, last: 'the end' },
      pane: await paneOf(service),
      ...{ begins: line, length: 100 * hundreds * (line.length + 4) },
    });
    const before = await resident();
    let most = before;
    const timer = setInterval(async () => {
      most = Math.max(most, await resident());
    }, 50);
    const tookMs = await print(tmux, scratch.path);
    const all = await eventually(
      async () => {
        const read = await ask<Read[]>('look');
        const told = read.slice(0, 18).filter(({ done, gaps }) => done || gaps.length > 0);
        return told.length === 18 ? read : undefined;
      },
      'all who read come to the end',
      60_000,
    );
    clearInterval(timer);
    console.log(
      `slow readers: the program took ${tookMs} ms, ${(tookMs / plainMs).toFixed(2)} times as long as beside a plain control client; memory grew ${(most - before).toFixed(0)} MiB`,
    );
    const printed = createHash('sha256');
    for (let at = 0; at < hundreds; at++) printed.update(`${line}\\r\\n`.repeat(100));
    const whole = printed.digest('hex');
    for (const { sha256, gaps } of all.slice(0, 18)) {
      expect(gaps).toEqual([]);
      expect(sha256).toBe(whole);
    }
    expect(most - before).toBeLessThan(mostMiB);
    expect(tookMs / plainMs).toBeLessThan(4);

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
      // It goes on where the others have come to.
      expect(offset(gap?.after)).toBe(offset(all[0]?.lastCursor));
    }
  } finally {
    child.disconnect();
  }
});

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
