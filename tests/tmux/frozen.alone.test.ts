import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { waitedForCoreMs } from '../support/core-wait.ts';
import { leaveNoDescriptor } from '../support/descriptors.ts';
import { localFleet } from '../support/local-fleet.ts';
import { descendants } from '../support/process-table.ts';
import { SkippingClock } from '../support/skipping-clock.ts';
import { stopProcess } from '../support/stop-process.ts';
import { eventually } from '../support/tmux-server.ts';

describe('a frozen server', () => {
  it('costs nobody anything: 20 clients poll for 7 s, and each poll is answered at once', async () => {
    const clock = new SkippingClock();
    await using world = await localFleet({ memberIds: ['alice', 'bob'], clock });
    const frozen = await world.tmux({ name: 'frozen' });
    await world.tmux({ name: 'fine' });
    await Promise.all([world.fleet.read('alice'), world.fleet.read('bob')]);
    const before = world.server('frozen');
    const pid = await frozen.pid();
    const calls = world.fleet.figures().helperCalls;
    await stopProcess(pid);

    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    const end = performance.now() + 7_000;
    let slowest = 0;
    let fresh = true;
    const clients = Array.from({ length: 20 }, async () => {
      while (performance.now() < end) {
        const waited = await waitedForCoreMs('self');
        const at = performance.now();
        const listing = await world.fleet.read('alice');
        const took = performance.now() - at;
        slowest = Math.max(slowest, took - ((await waitedForCoreMs('self')) - waited));
        fresh &&=
          listing?.status.state === 'FRESH' && world.server('fine').listing.state === 'FRESH';
        await wait(20);
      }
    });
    await Promise.all(clients);
    delay.disable();
    expect(slowest).toBeLessThan(100);
    expect(delay.max / 1e6).toBeLessThan(500);
    expect(fresh).toBe(true);
    expect(world.fleet.figures().helperCalls - calls).toBe(0);
    expect(world.server('frozen')).toMatchObject({
      status: 'STOPPED',
      pid,
      generation: before.generation,
      listing: { state: 'STALE' },
      sessions: before.sessions,
    });
    // Stopped servers are seen in /proc and never asked, so no client of one is left hanging.
    const left = await descendants(process.pid);
    expect(left.filter(({ command }) => command.startsWith('tmux '))).toEqual([]);

    // Not yet 15 s, then more.
    clock.skip(5_000);
    await world.refresh();
    expect(world.server('frozen').listing.state).toBe('STALE');
    clock.skip(10_000);
    await world.refresh();
    expect(world.server('frozen').listing.state).toBe('UNKNOWN');
    expect(world.server('frozen')).toMatchObject({ status: 'STOPPED', sessions: null });
    process.kill(pid, 'SIGCONT');
    const at = performance.now();
    await world.refresh();
    expect(performance.now() - at).toBeLessThan(1_000);
    expect(world.server('frozen')).toMatchObject({
      status: 'RUNNING',
      generation: before.generation,
      listing: { state: 'FRESH' },
    });
  });

  it('bears refreshListing twenty times: each within 3 s, by one helper process', async () => {
    await using world = await localFleet();
    const frozen = await world.tmux({ name: 'frozen' });
    await world.tmux({ name: 'fine' });
    await world.read();
    await stopProcess(await frozen.pid());
    const times = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const at = performance.now();
        await world.refresh();
        return performance.now() - at;
      }),
    );
    expect(Math.max(...times)).toBeLessThan(3_500);
    expect(world.fleet.figures().helperCalls).toBe(1);
    expect(world.server('frozen').status).toBe('STOPPED');
    expect(world.server('fine')).toMatchObject({ status: 'RUNNING', listing: { state: 'FRESH' } });
  });
});

describe('a server without free descriptors', () => {
  it('says so, is SPINNING while it takes a whole core, and the others stay FRESH', async () => {
    await using world = await localFleet();
    const starved = await world.tmux({ version: '3.3a', name: 'starved' });
    await world.tmux({ name: 'fine' });
    await world.read();
    const pid = await starved.pid();
    await leaveNoDescriptor(pid, { spare: 2 });
    const cpu = () => world.server('starved').cpuPercent ?? 0;
    // A core of its own is what a busy machine may not have for it: then it is UNRESPONSIVE.
    for (let second = 0; second < 6 && cpu() < 90; second++) {
      await world.refresh();
      await wait(1_000);
    }
    expect(world.server('starved')).toMatchObject({
      status: cpu() >= 90 ? 'SPINNING' : 'UNRESPONSIVE',
      reason: 'DESCRIPTORS_EXHAUSTED',
    });
    expect(world.server('fine').listing.state).toBe('FRESH');
  });
});

describe('the service itself', () => {
  it('stopped for a while melts its overdue refreshes into one for each member', async () => {
    await using world = await localFleet({ memberIds: ['alice'] });
    await world.tmux();
    const src = (path: string) => JSON.stringify(join(import.meta.dirname, '../../src', path));
    const script = join(world.directory, 'service.ts');
    await writeFile(
      script,
      `import { LocalFleet } from ${src('tmux/local-fleet.ts')};
       import { readConfig } from ${src('config.ts')};
       import { userInfo } from 'node:os';
       const directory = ${JSON.stringify(world.directory)};
       const config = readConfig({ HOME: directory, MUXWARDEN_SOCKET_DIRS: directory, MUXWARDEN_LISTING_INTERVAL_MS: '500' });
       const fleet = new LocalFleet({ config });
       const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
       fleet.setAccounts(ids.map((memberId) => ({ memberId, osUser: userInfo().username })));
       const keep = setInterval(() => {}, 1000);
       process.on('SIGUSR2', () => {
         const states = ids.map((id) => fleet.peek(id)?.status.state);
         process.stdout.write(JSON.stringify({ states, calls: fleet.figures().helperCalls }) + '\\n');
       });
       process.on('SIGTERM', async () => { clearInterval(keep); await fleet[Symbol.asyncDispose](); process.exit(0); });
       for await (const change of fleet.follow(() => ids, new AbortController().signal)) {
         if (change.kind === 'synced') process.stdout.write('synced\\n');
       }`,
    );
    const service = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const lines = createInterface({ input: service.stdout })[Symbol.asyncIterator]();
    expect((await lines.next()).value).toBe('synced');
    service.kill('SIGSTOP');
    // Four intervals long.
    await wait(2_000);
    service.kill('SIGCONT');
    let most = 0;
    for (let look = 0; look < 8; look++) {
      const helpers = (await descendants(service.pid ?? 0)).filter(
        ({ parent }) => parent === service.pid,
      );
      most = Math.max(most, helpers.length);
      await wait(50);
    }
    expect(most).toBeLessThanOrEqual(6);
    service.kill('SIGUSR2');
    const { states, calls } = JSON.parse((await lines.next()).value ?? '{}');
    expect(states).toEqual(Array.from({ length: 6 }, () => 'FRESH'));
    expect(calls).toBe(6);
    const exited = once(service, 'exit');
    service.kill('SIGTERM');
    await exited;
    await eventually(
      async () => (await descendants(service.pid ?? 0)).length === 0,
      'no helper left',
    );
  });
});

describe('an oversized answer', () => {
  it('is OUTPUT_TOO_LARGE for its server alone, and costs no memory that stays', async () => {
    const clock = new SkippingClock();
    await using world = await localFleet({ clock });
    const big = await world.tmux({ name: 'big', command: ['exec sleep 1000'] });
    await world.tmux({ name: 'fine' });
    await world.read();
    await big.run('select-pane', '-t', 'main', '-T', 'x'.repeat(390));
    await big.run('rename-window', '-t', 'main', 'y'.repeat(390));
    const links = Array.from({ length: 1_600 }, (_, index) => [
      'link-window',
      '-d',
      '-s',
      'main:0',
      '-t',
      `main:${index + 10}`,
      ';',
    ]);
    for (let at = 0; at < links.length; at += 100)
      await big.run(...links.slice(at, at + 100).flat());
    const memory = process.memoryUsage().rss;
    for (let look = 0; look < 5; look++) await world.refresh();
    expect(world.server('big')).toMatchObject({
      status: 'RUNNING',
      listing: { state: 'STALE', reason: 'OUTPUT_TOO_LARGE' },
    });
    expect(world.server('fine').listing.state).toBe('FRESH');
    expect((await world.read()).status.state).toBe('FRESH');
    expect(process.memoryUsage().rss - memory).toBeLessThan(10 << 20);
    clock.skip(15_500);
    await world.refresh();
    expect(world.server('big')).toMatchObject({
      listing: { state: 'UNKNOWN', reason: 'OUTPUT_TOO_LARGE' },
      sessions: null,
    });
    const left = await descendants(process.pid);
    expect(left.filter(({ command }) => command.startsWith('tmux '))).toEqual([]);
    await big.run('kill-window', '-a', '-t', 'main:0');
    await big.run('kill-server').catch(() => {});
  });
});
