import { chmod, chown, mkdir, rename, rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { waitedForCoreMs } from '../support/core-wait.ts';
import { lacks } from '../support/needs.ts';
import { stopProcess } from '../support/stop-process.ts';
import { rounds } from '../support/tier.ts';
import { eventually, startTicks, type TmuxServer } from '../support/tmux-server.ts';
import { type Lab, startLab } from './lab.ts';
import {
  addMembers,
  lookAtMembers,
  type MemberSeen,
  refresh,
  type ServerSeen,
} from './members-page.ts';
import type { Service } from './service.ts';

/**
 * Three members through sudo while ten dashboards look: alice is fine, bob's server is frozen, carol's
 * tmux folder has mode 000. The clocks are the real ones, with the default configuration.
 */

const seconds = rounds(24, 60);
const dashboards = 10;

interface Look {
  /** Since the service was started, ms. */
  readonly at: number;
  readonly ms: number;
  /** Of that the service, or this test, had no core. */
  readonly waitedMs: number;
  readonly members: ReadonlyMap<string, MemberSeen>;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(lacks('root', 'sudo', 'visudo', 'tmux'))('three members through sudo', () => {
  let lab: Lab;
  let service: Service;
  let alices: TmuxServer;
  let bobs: TmuxServer;
  let carols: TmuxServer;
  let before: ReadonlyMap<string, MemberSeen>;
  let firstMs: number;
  const looks: Look[] = [];
  const stops: string[] = [];

  const folderOf = (name: 'alice' | 'bob' | 'carol') => `/tmp/tmux-${lab.users[name].uid}`;
  const seenOf = (look: { members: ReadonlyMap<string, MemberSeen> }, name: string) => {
    const member = look.members.get(name);
    if (member === undefined) throw new Error(`${name} is not in the list of members`);
    return member;
  };
  const serverOf = (member: MemberSeen, path: string): ServerSeen => {
    const server = member.tmuxServers?.find(({ socketPath }) => socketPath === path);
    if (server === undefined) throw new Error(`${path} is not listed`);
    return server;
  };
  const waited = async () => (await waitedForCoreMs(service.pid)) + (await waitedForCoreMs('self'));
  const olderThan15s = (observedAt: string | null, at: number) =>
    observedAt === null || at - Date.parse(observedAt) > 15_000;

  beforeAll(async () => {
    lab = await startLab({ logReads: true });
    const { alice, bob, carol } = lab.users;
    alices = await lab.startTmuxAs(alice);
    bobs = await lab.startTmuxAs(bob);
    await lab.startTmuxAs(bob, { name: 'second' });
    carols = await lab.startTmuxAs(carol);
    service = await lab.startService();
    await addMembers(lab, service, ['alice', 'bob', 'carol']);

    firstMs = (await lookAtMembers(service)).ms;
    before = await eventually(async () => {
      const { members } = await lookAtMembers(service);
      const states = (['alice', 'bob', 'carol'] as const).map(
        (name) => members.get(name)?.listing.state,
      );
      return states.every((state) => state === 'FRESH') ? members : undefined;
    }, 'all three are known');

    await stopProcess(await bobs.pid());
    await chmod(folderOf('carol'), 0);
    console.info(`${dashboards} dashboards for ${seconds} s, each asking once a second`);
    const end = performance.now() + seconds * 1_000;
    await Promise.all(
      Array.from({ length: dashboards }, async (_, index) => {
        const following = new AbortController();
        const follow = (async () => {
          const events = service.subscribe<{ listingChanged: { __typename: string } }>(
            'subscription { listingChanged { __typename ... on ListingSnapshot { member { id login listing { state } } } } }',
            {},
            following.signal,
          );
          for await (const { listingChanged } of events) stops.push(listingChanged.__typename);
        })().catch((cause: unknown) => {
          if (!following.signal.aborted) throw cause;
        });
        await pause(index * 100);
        while (performance.now() < end) {
          const at = Date.now();
          const before = await waited();
          const look = await lookAtMembers(service);
          looks.push({ at, waitedMs: (await waited()) - before, ...look });
          await pause(1_000);
        }
        following.abort();
        await follow;
      }),
    );
  }, 240_000);

  afterAll(async () => {
    if (lab !== undefined) await chmod(folderOf('carol'), 0o700).catch(() => undefined);
    await lab?.[Symbol.asyncDispose]();
  });

  it('answers the first question within 2 s, and soon with everything', () => {
    expect(firstMs).toBeLessThan(2_500);
    for (const name of ['alice', 'bob', 'carol']) {
      const member = seenOf({ members: before }, name);
      expect([name, member.listing.state]).toEqual([name, 'FRESH']);
      expect(member.tmuxServers?.map(({ status }) => status)).toEqual(
        name === 'bob' ? ['RUNNING', 'RUNNING'] : ['RUNNING'],
      );
    }
  });

  it('answers every later one in under 100 ms, though one is frozen and one is closed', () => {
    const times = looks.map(({ ms }) => ms).sort((a, b) => a - b);
    console.info(
      `${times.length} questions, p50 ${times[times.length >> 1]?.toFixed(1)} ms, worst ${times.at(-1)?.toFixed(1)} ms`,
    );
    expect(times.length).toBeGreaterThan(dashboards * (seconds / 2));
    const slow = looks.filter(({ ms, waitedMs }) => ms - waitedMs >= 100);
    expect(slow.map(({ ms, waitedMs }) => [ms, waitedMs])).toEqual([]);
    expect(looks.filter(({ ms }) => ms >= 100).length).toBeLessThan(times.length / 5);
  });

  it('never holds its event loop for long', async () => {
    const { data } = await service.query<{ installation: { eventLoopDelayP99Ms: number } }>(
      '{ installation { eventLoopDelayP99Ms } }',
    );
    console.info(`event loop delay p99 ${data?.installation.eventLoopDelayP99Ms.toFixed(1)} ms`);
    expect(data?.installation.eventLoopDelayP99Ms).toBeLessThan(500);
  });

  it('shows who is fine as FRESH throughout, with rows', () => {
    for (const look of looks) {
      const alice = seenOf(look, 'alice');
      expect(alice.listing.state).toBe('FRESH');
      const server = serverOf(alice, `${folderOf('alice')}/default`);
      expect([server.status, server.listing.state]).toEqual(['RUNNING', 'FRESH']);
      expect(server.sessions?.map(({ name }) => name)).toEqual(['main']);
      const second = serverOf(seenOf(look, 'bob'), `${folderOf('bob')}/second`);
      expect([second.status, second.listing.state]).toEqual(['RUNNING', 'FRESH']);
    }
  });

  it('shows the frozen server as STOPPED: old rows as STALE for 15 s, then unknown, never empty', () => {
    const states: string[] = [];
    for (const look of looks.filter(({ at }) => at > (looks[0]?.at ?? 0) + 7_000)) {
      const server = serverOf(seenOf(look, 'bob'), `${folderOf('bob')}/default`);
      expect(server.status).toBe('STOPPED');
      states.push(server.listing.state);
      if (server.listing.state === 'UNKNOWN') {
        expect(server.sessions).toBe(null);
        expect(olderThan15s(server.listing.observedAt, look.at + look.ms + 1_000)).toBe(true);
      } else expect(server.sessions?.map(({ name }) => name)).toEqual(['main']);
    }
    // Each state lasts; none comes back.
    expect(states.filter((state, index) => state !== states[index - 1]).slice(-2)).toEqual([
      'STALE',
      'UNKNOWN',
    ]);
    for (const look of looks) {
      expect(serverOf(seenOf(look, 'bob'), `${folderOf('bob')}/default`).sessions).not.toEqual([]);
    }
  });

  it('shows the closed member as STALE for 15 s, then unknown with EACCES, never as empty', () => {
    const states: string[] = [];
    for (const look of looks) {
      const carol = seenOf(look, 'carol');
      states.push(carol.listing.state);
      expect(carol.tmuxServers).not.toEqual([]);
      if (carol.listing.state === 'UNKNOWN') {
        expect([carol.listing.reason, carol.tmuxServers]).toEqual(['EACCES', null]);
      } else if (carol.listing.state === 'STALE') {
        expect(carol.listing.reason).toBe('EACCES');
        const [server] = carol.tmuxServers ?? [];
        expect([server?.status, server?.reason]).toEqual(['UNKNOWN', 'EACCES']);
      }
    }
    // The first looks may still be FRESH.
    const turns = states.filter((state, index) => state !== states[index - 1]);
    expect(turns.filter((state, index) => index > 0 || state !== 'FRESH')).toEqual([
      'STALE',
      'UNKNOWN',
    ]);
  });

  it('keeps all of them in the list, and tells followers of each state', () => {
    for (const look of looks) expect(look.members.size).toBe(before.size);
    expect(stops.filter((name) => name === 'ListingSynced')).toHaveLength(dashboards);
    expect(stops.filter((name) => name === 'ListingSnapshot').length).toBeGreaterThan(
      dashboards * before.size,
    );
  });

  it('starts sudo at most once for each member', async () => {
    const log = await lab.sudoLog();
    for (const name of ['alice', 'bob', 'carol'] as const) {
      const calls = log.filter((line) => line.includes(`USER=${lab.users[name].name} `));
      expect([name, calls.length]).toEqual([name, 1]);
    }
  });

  it('makes no client of the frozen server, and sends nothing to the closed one', async () => {
    const own = await lab.processesOf(lab.users.bob);
    const helpers = own.filter(({ command }) => command.includes(lab.installation.helper));
    // One that serves is two processes: the second starts its clients.
    expect(helpers.length).toBeLessThanOrEqual(2);
    const clients = own.filter(({ command }) => /^\S*(tmux|fd\/\d+) .*-N/.test(command));
    expect(clients).toEqual([]);
  });

  it('finds both again at once when they come back, with the ids from before', async () => {
    process.kill(await pidOf(bobs), 'SIGCONT');
    await chmod(folderOf('carol'), 0o700);
    for (const name of ['bob', 'carol']) {
      const began = performance.now();
      const now = await refresh(service, seenOf({ members: before }, name).id);
      expect([name, now.listing.state]).toEqual([name, 'FRESH']);
      expect(performance.now() - began).toBeLessThan(1_000);
      const ids = (member: MemberSeen) =>
        member.tmuxServers?.map(({ id, status, pid, sessions }) => [id, status, pid, sessions]);
      expect(ids(now)).toEqual(ids(seenOf({ members: before }, name)));
    }
  });

  it('tells "no server" from "could not look"', async () => {
    process.kill(await pidOf(alices), 'SIGKILL');
    await rm(folderOf('alice'), { recursive: true });
    process.kill(await pidOf(bobs), 'SIGKILL');
    const gone = await eventually(async () => {
      const look = await lookAtMembers(service);
      const [alice, bob] = [seenOf(look, 'alice'), seenOf(look, 'bob')];
      expect([alice.listing.state, bob.listing.state]).toEqual(['FRESH', 'FRESH']);
      const left = [...(alice.tmuxServers ?? []), ...(bob.tmuxServers ?? [])].filter(
        ({ status, socketPath }) => status !== 'ABSENT' && !socketPath.endsWith('/second'),
      );
      return left.length === 0 ? look : undefined;
    }, 'both servers are known to be gone');
    expect(seenOf(gone, 'alice').tmuxServers).not.toBe(null);
    expect(seenOf(gone, 'bob').tmuxServers).not.toBe(null);
    expect(gone.members.size).toBe(before.size);
  });

  it('shows a folder that another user made first as unsafe, with owner and mode', async () => {
    const { bob } = lab.users;
    await rename(folderOf('carol'), `${folderOf('carol')}.aside`);
    await mkdir(folderOf('carol'), { mode: 0o700 });
    await chown(folderOf('carol'), bob.uid, bob.gid);
    const carol = await refresh(service, seenOf({ members: before }, 'carol').id);
    const reasons = [carol.listing, ...(carol.tmuxServers ?? [])].filter(
      ({ reason }) => reason === 'UNSAFE_DIRECTORY',
    );
    expect(reasons.length).toBeGreaterThan(0);
    expect(reasons[0]?.detail).toMatch(/0?700/);
    expect(carol.tmuxServers ?? 'unknown').not.toEqual([]);
    expect(seenOf(await lookAtMembers(service), 'bob').listing.state).toBe('FRESH');
    await rm(folderOf('carol'), { recursive: true });
    await rename(`${folderOf('carol')}.aside`, folderOf('carol'));
  });

  it('leaves no process behind when it ends', async () => {
    expect(await service.stop()).toBe(0);
    expect(await lab.sudoProcesses()).toEqual([]);
    expect(await lab.processesOf(lab.users.service)).toEqual([]);
    for (const name of ['alice', 'bob', 'carol'] as const) {
      const others = (await lab.processesOf(lab.users[name])).filter(
        ({ command }) => !/^tmux |^\S*\/tmux |^(-?sh|exec sh)$|^sh\b/.test(command),
      );
      expect([name, others]).toEqual([name, []]);
    }
    expect(await startTicks(await pidOf(carols))).toBeDefined();
  });

  /** Without asking the server, which may be stopped. */
  async function pidOf(server: TmuxServer): Promise<number> {
    const pid = [...before.values()]
      .flatMap(({ tmuxServers }) => tmuxServers ?? [])
      .find(({ socketPath }) => socketPath === server.socket)?.pid;
    if (pid == null) throw new Error(`the pid of ${server.socket} was not known`);
    return pid;
  }
});
