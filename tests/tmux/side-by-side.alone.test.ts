import { readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import type { PaneOutputEvent } from '../../src/tmux/pane-events.ts';
import { paneRef, restartRequest } from '../support/acting-member.ts';
import { leaveNoDescriptor } from '../support/descriptors.ts';
import { hex, ServingHelper } from '../support/helper-client.ts';
import { localFleet } from '../support/local-fleet.ts';
import { descendants } from '../support/process-table.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { stopProcess } from '../support/stop-process.ts';
import { rounds } from '../support/tier.ts';
import {
  eventually,
  presentVersions,
  type StartOptions,
  startTmux,
  tmuxBinary,
} from '../support/tmux-server.ts';

const hertz = Number((await execa('getconf', ['CLK_TCK'])).stdout);

/** Seconds of CPU that a process has had. */
async function cpuOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / hertz;
}

const filesOf = async (pid: number) => (await readdir(`/proc/${pid}/fd`)).length;
const median = (values: readonly number[]) =>
  values.toSorted((one, other) => one - other)[values.length >> 1] ?? Number.NaN;

describe('servers of every version side by side', () => {
  it('cost under 5 % of a core each while listed and streamed, keep no descriptor, and are repaired and restarted', async () => {
    const seconds = rounds(8, 60);
    await using local = await localFleet({
      environment: {
        MUXWARDEN_TMUX_BIN: tmuxBinary(presentVersions.at(-1) ?? '3.8') ?? '',
        MUXWARDEN_LINGER_MS: '200',
      },
    });
    const { fleet } = local;
    const command = ['while :; do echo "é $((n += 1))"; sleep 0.5; done'];
    for (const version of presentVersions) await local.tmux({ name: version, version, command });
    await local.refresh();
    const views = presentVersions.map((version) => local.server(version));
    const pids = views.map(({ pid }) => pid ?? 0);
    const figures = async () => ({
      cpu: await Promise.all(pids.map(cpuOf)),
      files: await Promise.all(pids.map(filesOf)),
      ownFiles: await filesOf(process.pid),
      sizes: presentVersions.map((version) => {
        const [pane] = local.server(version).sessions?.[0]?.windows[0]?.panes ?? [];
        return [pane?.columns, pane?.rows];
      }),
    });
    const first = await figures();
    await wait(seconds * 500);
    const idle = await figures();
    await local.refresh();

    const leave = new AbortController();
    const chunks = new Map<string, number>();
    const watching = views.map(async (view) => {
      const events: AsyncIterable<PaneOutputEvent> = fleet.output(
        paneRef(view),
        undefined,
        leave.signal,
      );
      for await (const { kind } of events) {
        chunks.set(`${view.version} ${kind}`, (chunks.get(`${view.version} ${kind}`) ?? 0) + 1);
      }
    });
    const end = performance.now() + seconds * 1_000;
    let states = new Set<string>();
    let captures = 0;
    while (performance.now() < end) {
      const listing = await local.read();
      states = new Set([...states, ...(listing.servers ?? []).map((one) => one.listing.state)]);
      const view = views[captures++ % views.length];
      if (view !== undefined) await fleet.capture(paneRef(view), 10);
      await wait(500);
    }
    const busy = await figures();
    leave.abort();
    await Promise.all(watching);

    const shares = pids.map((_, at) => {
      const used = (busy.cpu[at] ?? 0) - (idle.cpu[at] ?? 0);
      const baseline = 2 * ((idle.cpu[at] ?? 0) - (first.cpu[at] ?? 0));
      return Math.round(((used - baseline) / seconds) * 1_000) / 10;
    });
    console.log(`CPU over idle, ${seconds} s: ${shares.map((s) => `${s} %`).join(', ')}`);
    expect(Math.max(...shares)).toBeLessThan(5);
    expect([...states]).toEqual(['FRESH']);
    for (const version of presentVersions) {
      expect(chunks.get(`${version} snapshot`)).toBe(1);
      expect(chunks.get(`${version} gap`)).toBeUndefined();
      expect(chunks.get(`${version} chunk`)).toBeGreaterThan(seconds);
    }
    expect(busy.sizes).toEqual(first.sizes);
    await eventually(async () => {
      const { files, ownFiles } = await figures();
      return `${files} ${ownFiles - idle.ownFiles < 4}` === `${idle.files} true`;
    }, 'as many descriptors as before');

    for (const version of presentVersions) await unlink(join(local.directory, version));
    await local.refresh();
    for (const version of presentVersions) {
      const { ref, generation, reason } = local.server(version);
      expect(reason).toBe('SOCKET_LOST');
      using act = await fleet.prepareRepairServer({
        server: ref,
        expectedGeneration: generation ?? '',
        repair: 'RECREATE_SOCKET',
        operationId: version,
      });
      expect((await act.run()).after).toMatchObject({ status: 'RUNNING', generation });
    }
    for (const version of presentVersions) {
      using act = await fleet.prepareRestartServer(restartRequest(local.server(version)));
      expect((await act.run()).after.status).toBe('RUNNING');
    }
    const after = (await local.refresh()).servers ?? [];
    expect(after.map(({ status, outdated }) => `${status} ${outdated}`)).toEqual(
      presentVersions.map(() => 'RUNNING false'),
    );
  }, 480_000);
});

describe('twenty servers of one member', () => {
  it('of which one is frozen, one never answers and one floods: the others are FRESH throughout', async () => {
    const seconds = rounds(4, 60);
    await using good = await scratchDirectory();
    await using bad = await scratchDirectory();
    await using local = await localFleet({
      environment: {
        MUXWARDEN_SOCKET_DIRS: `${good.path}:${bad.path}`,
        MUXWARDEN_LISTING_INTERVAL_MS: '500',
      },
    });
    await using stack = new AsyncDisposableStack();
    const start = async (options: StartOptions) =>
      stack.use(await startTmux({ command: ['exec sleep 1000'], ...options }));
    for (let at = 0; at < 17; at++) {
      const version = presentVersions[at % presentVersions.length] ?? '3.8';
      await start({ directory: good.path, name: `good-${at}`, version });
    }
    const frozen = await start({ directory: bad.path, name: 'frozen' });
    await stopProcess(await frozen.pid());
    // Without descriptors 3.6 and later answer nobody, and take no CPU.
    const silent = await start({ directory: bad.path, name: 'silent', version: '3.8' });
    await leaveNoDescriptor(await silent.pid());
    const flood = await start({ directory: bad.path, name: 'flood' });
    await flood.run('select-pane', '-t', 'main', '-T', 'x'.repeat(390));
    await flood.run('rename-window', '-t', 'main', 'y'.repeat(390));
    for (let at = 1; at <= 1_600; at += 100) {
      const links = Array.from({ length: 100 }, (_, index) => [
        ...['link-window', '-d', '-s', 'main:0', '-t', `main:${at + index}`, ';'],
      ]);
      await flood.run(...links.flat());
    }
    const servers = (await local.refresh()).servers ?? [];
    const named = (name: string) => servers.find((one) => one.socketPath === join(bad.path, name));
    expect(servers).toHaveLength(20);
    expect(named('frozen')?.status).toBe('STOPPED');
    expect(named('silent')?.status).toBe('UNRESPONSIVE');
    expect(named('flood')?.listing.reason).toBe('OUTPUT_TOO_LARGE');

    const states = new Map<string, number>();
    const following = local.follow();
    const end = performance.now() + seconds * 1_000;
    while (performance.now() < end) {
      for (const { socketPath, listing } of local.fleet.peek(local.memberId)?.servers ?? []) {
        if (!socketPath.startsWith(good.path)) continue;
        states.set(listing.state, (states.get(listing.state) ?? 0) + 1);
      }
      await wait(20);
    }
    await following[Symbol.asyncDispose]();
    expect([...states.keys()]).toEqual(['FRESH']);

    // As the listing asks while the two that fail are in their pause; in turns, so that whatever
    // else the machine does counts for both.
    const helper = new ServingHelper();
    const skip = [silent.socket, flood.socket].map(hex).join(',');
    const ratios: number[] = [];
    for (let look = 0; look < rounds(15, 100); look++) {
      const took: number[] = [];
      for (const more of ['', `,${hex(bad.path)} skip=${skip}`]) {
        const began = performance.now();
        await helper.ask(`snapshot dirs=${hex(good.path)}${more}`);
        took.push(performance.now() - began);
      }
      ratios.push((took[1] ?? 0) / (took[0] ?? 0));
    }
    console.log(
      `a listing beside the three takes ${median(ratios).toFixed(2)} of one without them`,
    );
    expect(median(ratios)).toBeLessThan(rounds(20, 11) / 10);
    helper.child.stdin.end();

    // A look that was under way ends by itself.
    await eventually(async () => {
      const left = await descendants(process.pid);
      return left.every(({ command }) => !command.startsWith('tmux '));
    }, 'no client of tmux is left');
    await local.fleet[Symbol.asyncDispose]();
    await eventually(async () => {
      const helpers = await descendants(process.pid);
      return !helpers.some(({ command }) => command.includes('muxwarden-member'));
    }, 'no helper and no client is left');
  }, 480_000);
});
