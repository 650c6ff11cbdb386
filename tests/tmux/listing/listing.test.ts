import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HelperError } from '../../../src/tmux/member-helper.ts';
import type { MemberListing } from '../../../src/tmux/model.ts';
import { settle } from '../../support/fake-clock.ts';
import { bootId, directory, hex, snapshotRows } from '../../support/scripted-helper.ts';
import { scriptedListing } from '../../support/scripted-listing.ts';
import { rounds } from '../../support/tier.ts';

// The rules, by a clock that stands still; what is true of real servers is in snapshot.test.ts.

const timeout = () => new HelperError('TIMEOUT', 'the helper did not answer within 3000 ms');
const path = `${directory}/default`;
const ref = { memberId: 'alice', pathHex: hex(path) };
const names = (listing: MemberListing, at = 0) =>
  listing.servers?.[at]?.sessions?.map((session) => session.name);

/** One read asks at 0, 5 and 10 s; from 15 s on it would be cold. */
const lastLookOfAReadMs = 10_000;

describe('a read', () => {
  it('of a cold listing waits for the answer, and is FRESH', async () => {
    using world = scriptedListing();
    const read = world.listing.read();
    await world.clock.advance(700);
    await world.answer();
    const listing = await read;
    expect(listing.status.state).toBe('FRESH');
    expect(listing.servers?.[0]?.listing.state).toBe('FRESH');
    expect(names(listing)).toEqual(['main']);
    expect(listing.status.observedAt).toEqual(new Date(world.clock.now() - 700));
  });

  it('of a cold listing waits 2 s at most, and then says UNKNOWN, never that there is nothing', async () => {
    using world = scriptedListing();
    let listing: MemberListing | undefined;
    void world.listing.read().then((read) => {
      listing = read;
    });
    await world.clock.advance(1_999);
    expect(listing).toBeUndefined();
    await world.clock.advance(1);
    expect(listing?.status.state).toBe('UNKNOWN');
    expect(listing?.status.reason).toBe('TIMEOUT');
    expect(listing?.servers).toBeNull();
  });

  it('waits no second time for a call that is overdue already', async () => {
    using world = scriptedListing();
    void world.listing.read();
    await world.clock.advance(2_500);
    const listing = await world.listing.read();
    expect(listing.status.state).toBe('UNKNOWN');
    expect(world.helper.requests).toHaveLength(1);
  });

  it('by a hundred at once is one request', async () => {
    using world = scriptedListing();
    const reads = Array.from({ length: 100 }, () => world.listing.read());
    await settle();
    await world.answer();
    const versions = new Set((await Promise.all(reads)).map((listing) => listing.status.version));
    expect(versions.size).toBe(1);
    expect(world.helper.requests).toHaveLength(1);
  });

  it('within the interval asks nobody; after it answers at once and asks behind the answer', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    await world.listing.read();
    await world.clock.advance(4_999);
    await world.listing.read();
    expect(world.helper.requests).toHaveLength(1);
    await world.clock.advance(1);
    world.helper.always = undefined;
    const listing = await world.listing.read();
    expect(listing.status.state).toBe('FRESH');
    expect(names(listing)).toEqual(['main']);
    expect(world.helper.requests).toHaveLength(2);
  });

  it('is asked for again until it would be cold, so that the next reader meets no old answer', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    await world.listing.read();
    await world.clock.advance(6_000);
    expect(world.helper.requests).toHaveLength(2);
    await world.clock.advance(60_000);
    expect(world.helper.requests).toHaveLength(3);
  });

  it('once a minute finds FRESH rows each time', async () => {
    using world = scriptedListing();
    for (let minute = 0; minute < 5; minute++) {
      world.helper.always = undefined;
      const read = world.listing.read();
      await world.clock.advance(40);
      world.helper.always = () => snapshotRows();
      await world.answer();
      const listing = await read;
      expect(listing.status.state).toBe('FRESH');
      expect(listing.servers?.[0]?.listing.state).toBe('FRESH');
      await world.clock.advance(60_000);
    }
  });

  it('after a pause counts as cold, and is UNKNOWN when the answer does not come in time', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    await world.listing.read();
    await world.clock.advance(lastLookOfAReadMs + 15_001);
    world.helper.always = undefined;
    expect(world.listing.peek().status.state).toBe('STALE');
    const read = world.listing.read();
    await world.clock.advance(2_000);
    expect((await read).status.state).toBe('UNKNOWN');
    expect((await read).servers).toBeNull();
    await world.answer();
    expect(world.listing.peek().status.state).toBe('FRESH');
  });
});

describe('a listing', () => {
  it('is FRESH up to interval + 3 s, and STALE from then on, with its time', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    await world.listing.read();
    await world.clock.advance(lastLookOfAReadMs);
    const { observedAt } = world.listing.peek().status;
    await world.clock.advance(8_000);
    expect(world.listing.peek().status.state).toBe('FRESH');
    await world.clock.advance(1);
    expect(world.listing.peek().status).toMatchObject({ state: 'STALE', observedAt });
    expect(names(world.listing.peek())).toEqual(['main']);
    expect(world.listing.peek().servers?.[0]?.listing.state).toBe('STALE');
  });

  it('whose last attempt failed is STALE at once and UNKNOWN after 15 s, never empty', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    await world.listing.read();
    world.helper.always = timeout;
    await world.clock.advance(5_000);
    await world.listing.read();
    await settle();
    const failed = world.listing.peek();
    expect(failed.status).toMatchObject({
      state: 'STALE',
      reason: 'TIMEOUT',
      consecutiveFailures: 1,
    });
    expect(failed.status.nextAttemptAt).toEqual(new Date(world.clock.now() + 5_000));
    expect(failed.servers?.[0]).toMatchObject({ status: 'UNKNOWN', reason: 'TIMEOUT' });
    expect(names(failed)).toEqual(['main']);
    await world.clock.advance(10_000);
    expect(world.listing.peek().status.state).toBe('STALE');
    await world.clock.advance(1);
    expect(world.listing.peek()).toMatchObject({ status: { state: 'UNKNOWN' }, servers: null });
  });

  it('of a failing member is asked after 5, 10, 20, 40, 60 and 60 s from the end of each failure', async () => {
    using world = scriptedListing();
    const release = world.listing.watch();
    const pauses: number[] = [];
    let ended = 0;
    for (let attempt = 0; attempt < 7; attempt++) {
      const asked = world.helper.requests.length;
      for (let waited = 0; world.helper.requests.length === asked && attempt > 0; waited += 500) {
        expect(waited).toBeLessThan(61_000);
        await world.clock.advance(500);
      }
      if (attempt > 0) pauses.push(world.clock.monotonic() - ended);
      await world.clock.advance(3_000);
      world.helper.answer(timeout());
      await settle();
      ended = world.clock.monotonic();
    }
    expect(pauses).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000]);
    release();
  });

  it('of a member in back-off answers UNKNOWN at once', async () => {
    using world = scriptedListing();
    const first = world.listing.read();
    world.helper.answer(timeout());
    expect((await first).status.state).toBe('UNKNOWN');
    const listing = await world.listing.read();
    expect(listing.status).toMatchObject({ state: 'UNKNOWN', reason: 'TIMEOUT' });
    expect(world.helper.requests).toHaveLength(1);
  });

  it('with a directory that can’t be read is STALE, then UNKNOWN with EACCES; the way back gives the same ids', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    const release = world.listing.watch();
    await world.clock.advance(10);
    const before = world.listing.peek().servers?.[0];
    const closed = { code: 'EACCES', detail: `${directory}: Permission denied` };
    world.helper.always = () => snapshotRows({ servers: [], directory: closed });
    await world.clock.advance(5_000);
    expect(world.listing.peek().status).toMatchObject({ state: 'STALE', reason: 'EACCES' });
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      status: 'UNKNOWN',
      reason: 'EACCES',
      generation: before?.generation,
    });
    await world.clock.advance(55_000);
    expect(world.listing.peek()).toMatchObject({
      status: { state: 'UNKNOWN', reason: 'EACCES' },
      servers: null,
    });
    world.helper.always = () => snapshotRows();
    await world.listing.refresh();
    expect(world.listing.peek().status.state).toBe('FRESH');
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      status: 'RUNNING',
      generation: before?.generation,
    });
    release();
  });

  it('with an answer that can’t be parsed has failed', async () => {
    using world = scriptedListing();
    world.helper.always = () => 'server\tzz\n';
    const listing = await world.listing.read();
    expect(listing.status).toMatchObject({ state: 'UNKNOWN', reason: 'MALFORMED_ANSWER' });
  });

  it('shows no server where there is none, as known', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows({ servers: [], dead: 3 });
    const listing = await world.listing.read();
    expect(listing).toMatchObject({ status: { state: 'FRESH' }, servers: [] });
    expect(world.listing.sockets()).toEqual({ live: 0, orphaned: 3 });
  });
});

describe('refresh', () => {
  it('asks at once, past any back-off', async () => {
    using world = scriptedListing();
    world.helper.always = timeout;
    await world.listing.read();
    world.helper.always = () => snapshotRows();
    expect((await world.listing.refresh()).status.state).toBe('FRESH');
  });

  it('shows what was looked at after the call: it does not join a snapshot in flight', async () => {
    using world = scriptedListing();
    void world.listing.read();
    await settle();
    const refreshes = Array.from({ length: 20 }, () => world.listing.refresh());
    await world.answer({ servers: [{ sessions: ['before'] }] });
    expect(world.helper.requests).toHaveLength(2);
    await world.answer({ servers: [{ sessions: ['after'] }] });
    for (const listing of await Promise.all(refreshes)) expect(names(listing)).toEqual(['after']);
    expect(world.helper.requests).toHaveLength(2);
    expect(world.helper.mostInFlight).toBe(1);
  });

  it('answers within 3 s also when nobody answers it', async () => {
    using world = scriptedListing();
    let listing: MemberListing | undefined;
    void world.listing.refresh().then((refreshed) => {
      listing = refreshed;
    });
    await world.clock.advance(3_000);
    expect(listing?.status.state).toBe('UNKNOWN');
  });

  it('asks also the server that is left out of other snapshots', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows({ servers: [{ code: 'TIMEOUT' }] });
    await world.listing.read();
    await world.clock.advance(4_999);
    await world.listing.refresh();
    expect(world.helper.requests.at(-1)).not.toContain('skip=');
  });
});

describe('a server that fails', () => {
  it('is left out of snapshots until its pause is over, and spoils no other', async () => {
    using world = scriptedListing();
    const bad = `${directory}/bad`;
    const servers = (code: string) => [
      { path: bad, code, pid: 7 },
      { path, sessions: ['fine'] },
    ];
    world.helper.always = (request) =>
      snapshotRows({
        servers: servers(request.includes(`skip=${hex(bad)}`) ? 'SKIPPED' : 'TIMEOUT'),
      });
    const release = world.listing.watch();
    await world.clock.advance(120_000);
    const asked = world.helper.requests
      .map((request, index) => ({ at: index * 5, skipped: request.includes(`skip=${hex(bad)}`) }))
      .filter(({ skipped }) => !skipped)
      .map(({ at }) => at);
    expect(asked).toEqual([0, 5, 15, 35, 75]);
    const listing = world.listing.peek();
    expect(listing.status.state).toBe('FRESH');
    expect(listing.servers?.[0]).toMatchObject({
      status: 'UNRESPONSIVE',
      listing: { state: 'UNKNOWN', reason: 'TIMEOUT' },
      sessions: null,
    });
    expect(listing.servers?.[1]).toMatchObject({ status: 'RUNNING', listing: { state: 'FRESH' } });
    release();
  });

  it('keeps its rows STALE until they are 15 s old, then has none; back again, it is FRESH', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    const release = world.listing.watch();
    await world.clock.advance(10);
    world.helper.always = () => snapshotRows({ servers: [{ code: 'STOPPED', state: 'T' }] });
    await world.clock.advance(5_000);
    const stopped = world.listing.peek().servers?.[0];
    expect(stopped).toMatchObject({ status: 'STOPPED', listing: { state: 'STALE' } });
    expect(stopped?.sessions).toHaveLength(1);
    expect(world.listing.peek().status.state).toBe('FRESH');
    await world.clock.advance(10_001);
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      status: 'STOPPED',
      listing: { state: 'UNKNOWN' },
      sessions: null,
      attachedClients: null,
    });
    // It costs nothing to look whether it runs again, so nothing is left out.
    expect(world.helper.requests.join()).not.toContain('skip=');
    world.helper.always = () => snapshotRows();
    await world.clock.advance(5_000);
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      status: 'RUNNING',
      listing: { state: 'FRESH' },
    });
    release();
  });

  it('with another process on its path is asked at once, and never shown with the rows of before', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows({ servers: [{ sessions: ['old'] }] });
    await world.listing.read();
    world.helper.always = () => snapshotRows({ servers: [{ code: 'TIMEOUT' }] });
    await world.listing.refresh();
    world.helper.always = undefined;
    await world.clock.advance(5_000);
    await world.clock.advance(0);
    await world.listing.read();
    await world.answer({ servers: [{ code: 'SKIPPED', pid: 999, ticks: '888' }] });
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      generation: `${bootId}:999:888`,
      sessions: null,
    });
    await world.answer({ servers: [{ pid: 999, ticks: '888', sessions: ['new'] }] });
    expect(names(world.listing.peek())).toEqual(['new']);
  });
});

describe('a server at rest', () => {
  const heldIn = (request: string | undefined) => / held=(\w+)/.exec(request ?? '')?.[1];

  it('keeps its rows FRESH though they are not told again, and wakes nobody', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows({ look: 'aa', servers: [{ sessions: ['kept'] }] });
    const release = world.listing.watch();
    await world.clock.advance(10);
    const before = world.listing.peek();
    world.helper.always = (request) =>
      snapshotRows({ look: 'bb', servers: [{ code: heldIn(request) ? 'SAME' : 'OK', cpu: 99 }] });
    await world.clock.advance(60_000);
    const after = world.listing.peek();
    expect(heldIn(world.helper.requests[1])).toBe('aa');
    expect(heldIn(world.helper.requests[2])).toBe('bb');
    expect(names(after)).toEqual(['kept']);
    expect(after.servers?.[0]).toMatchObject({ status: 'RUNNING', listing: { state: 'FRESH' } });
    expect(after.status.version).toBe(before.status.version);
    expect(world.rings).toHaveLength(1);
    release();
  });

  it('is told whole to who asks now, acted on it, or was given rows that could not be read', async () => {
    using world = scriptedListing();
    const { listing, helper } = world;
    helper.always = () => snapshotRows({ look: 'aa' });
    await listing.read();
    await listing.refresh();
    expect(heldIn(helper.requests.at(-1))).toBeUndefined();

    await world.clock.advance(5_000);
    await listing.read();
    expect(heldIn(helper.requests.at(-1))).toBe('aa');
    listing.writeThrough(ref, { kind: 'touched' });
    await settle();
    expect(heldIn(helper.requests.at(-1))).toBeUndefined();

    helper.always = undefined;
    await world.clock.advance(5_000);
    await listing.read();
    expect(heldIn(helper.requests.at(-1))).toBe('aa');
    // It began before the act, so its rows were dropped, and are not held.
    listing.writeThrough(ref, { kind: 'touched' });
    helper.always = () => snapshotRows({ look: 'cc', servers: [{ sessions: ['other'] }] });
    await world.answer({ look: 'bb' });
    expect(heldIn(helper.requests.at(-1))).toBeUndefined();
    expect(names(listing.peek())).toEqual(['other']);
  });

  it('that was never told is not shown as if it had been', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows({ look: 'aa', servers: [{ code: 'SAME' }] });
    await world.listing.read();
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      sessions: null,
      listing: { state: 'UNKNOWN', reason: 'MALFORMED_ANSWER' },
    });
  });

  it('does not keep the rows of another life', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows({ look: 'aa' });
    await world.listing.read();
    world.helper.always = () => snapshotRows({ look: 'bb', servers: [{ code: 'SAME', pid: 5 }] });
    await world.clock.advance(5_000);
    await world.listing.read();
    await settle();
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      sessions: null,
      listing: { state: 'UNKNOWN', reason: 'MALFORMED_ANSWER' },
    });
    expect(heldIn(world.helper.requests.at(-1))).toBe('aa');
  });
});

describe('our own acts', () => {
  it('are in the value at once, and a snapshot in flight across them is dropped for that server alone', async () => {
    using world = scriptedListing();
    const other = `${directory}/other`;
    world.helper.always = () => snapshotRows({ servers: [{}, { path: other }] });
    await world.listing.read();
    world.helper.always = undefined;
    await world.clock.advance(5_000);
    await world.listing.read();
    world.listing.writeThrough(ref, { kind: 'ended' });
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      status: 'ABSENT',
      generation: null,
      sessions: [],
    });
    await world.answer({ servers: [{}, { path: other, sessions: ['made', 'since'] }] });
    expect(world.listing.peek().servers?.[0]).toMatchObject({ status: 'ABSENT', sessions: [] });
    expect(names(world.listing.peek(), 1)).toEqual(['made', 'since']);
    // Asked again by itself.
    expect(world.helper.requests).toHaveLength(3);
    await world.answer({ servers: [{ code: 'EDEAD' }, { path: other }] });
    expect(world.listing.peek().servers?.[0]?.status).toBe('ABSENT');
  });

  it('that start a server show its new generation, and rows as unknown until it was asked', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    await world.listing.read();
    world.helper.always = undefined;
    world.listing.writeThrough(ref, {
      kind: 'started',
      pid: 999,
      ticks: '888',
      tmuxStartTime: 5,
      version: '3.5a',
    });
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      status: 'RUNNING',
      generation: `${bootId}:999:888`,
      tmuxStartTime: 5,
      sessions: null,
      listing: { state: 'UNKNOWN', reason: 'NOT_YET_ASKED' },
    });
    await world.answer({ servers: [{ pid: 999, ticks: '888', sessions: ['again'] }] });
    expect(names(world.listing.peek())).toEqual(['again']);
  });
});

describe('the version', () => {
  it('stays while nothing changes but figures and times, and nobody is woken', async () => {
    using world = scriptedListing();
    let look = 0;
    world.helper.always = () => {
      look++;
      const server = { cpu: look * 3, openFiles: 8 + (look % 2) };
      return snapshotRows({ servers: [server], uptimeMs: 1_000_000 + look * 5_000 });
    };
    const release = world.listing.watch();
    await world.clock.advance(10);
    const { version, observedAt } = world.listing.peek().status;
    const { sessions } = world.listing.peek().servers?.[0] ?? {};
    const woken = world.rings.length;
    await world.clock.advance(60_000);
    expect(world.helper.requests).toHaveLength(13);
    expect(world.listing.peek().status.version).toBe(version);
    expect(world.listing.peek().status.observedAt).not.toEqual(observedAt);
    expect(world.listing.peek().servers?.[0]?.cpuPercent).not.toBeNull();
    // The very same rows: they were not parsed again.
    expect(world.listing.peek().servers?.[0]?.sessions).toBe(sessions);
    expect(world.rings).toHaveLength(woken);
    release();
  });

  it('changes once with each session made, renamed and gone, and wakes followers once', async () => {
    using world = scriptedListing();
    const versions = new Set<string>();
    world.helper.always = () => snapshotRows({ servers: [{ sessions: ['a'] }] });
    const release = world.listing.watch();
    await world.clock.advance(1_000);
    versions.add(world.listing.peek().status.version);
    for (const sessions of [['a', 'b'], ['a', 'c'], ['a']]) {
      world.helper.always = () => snapshotRows({ servers: [{ sessions }] });
      await world.clock.advance(5_000);
      versions.add(world.listing.peek().status.version);
    }
    expect(versions.size).toBe(4);
    expect(world.rings).toHaveLength(4);
    release();
  });

  it('changes by age alone too, FRESH to STALE to UNKNOWN, each waking followers once', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    const release = world.listing.watch();
    await world.clock.advance(10);
    world.helper.always = undefined;
    const woken = world.rings.length;
    await world.clock.advance(20_000);
    // The attempt of the 5th second never ends here, so it counts as failing from the 7th on.
    expect(world.rings.slice(woken)).toEqual([8_001, 15_001]);
    expect(world.listing.peek().status.state).toBe('UNKNOWN');
    release();
  });

  it('differs in each life of the service', async () => {
    using one = scriptedListing({}, 'one');
    using two = scriptedListing({}, 'two');
    for (const world of [one, two]) {
      world.helper.always = () => snapshotRows();
      await world.listing.read();
    }
    const [first, second] = [one.listing.peek(), two.listing.peek()];
    expect(first.status.version).not.toBe(second.status.version);
    expect(first.servers?.[0]?.listing.version).not.toBe(second.servers?.[0]?.listing.version);
  });

  it('changes with a client that comes, but not with one of ours', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    await world.listing.read();
    const { version } = world.listing.peek().status;
    world.ownClientPids.add(77);
    world.helper.always = () => snapshotRows({ servers: [{ clients: [{ session: 0, pid: 77 }] }] });
    await world.listing.refresh();
    expect(world.listing.peek().status.version).toBe(version);
    expect(world.listing.peek().servers?.[0]?.attachedClients).toBe(0);
    const clients = [77, 78].map((pid) => ({ session: 0, pid }));
    world.helper.always = () => snapshotRows({ servers: [{ clients }] });
    await world.listing.refresh();
    expect(world.listing.peek().status.version).not.toBe(version);
    expect(world.listing.peek().servers?.[0]).toMatchObject({
      attachedClients: 1,
      sessions: [{ attachedClients: 1 }],
    });
  });

  it('of a title that spins wakes followers once a second at most, and a new session at once', async () => {
    using world = scriptedListing();
    let turn = 0;
    let sessions = ['main'];
    world.helper.always = () => snapshotRows({ servers: [{ sessions, titles: [`${turn++}`] }] });
    const release = world.listing.watch();
    await world.clock.advance(10);
    const woken = world.rings.length;
    for (let look = 0; look < 50; look++) {
      await world.listing.refresh();
      await world.clock.advance(100);
    }
    const rings = world.rings.slice(woken);
    expect(rings.length).toBeGreaterThanOrEqual(4);
    expect(rings.length).toBeLessThanOrEqual(6);
    sessions = ['main', 'new'];
    const before = world.rings.length;
    await world.listing.refresh();
    expect(world.rings.length).toBe(before + 1);
    release();
  });
});

describe('a listing that is followed', () => {
  it('is asked every interval, however many follow it, and by nobody once all have left', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    const releases = Array.from({ length: 1_000 }, () => world.listing.watch());
    await world.clock.advance(60_000);
    expect(world.helper.requests).toHaveLength(13);
    for (const release of releases) release();
    await world.clock.advance(60_000);
    expect(world.helper.requests).toHaveLength(13);
    expect(world.clock.pending).toBe(0);
  });

  it('asks once after the service itself had been stopped for 30 s', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    const release = world.listing.watch();
    await world.clock.advance(60_000);
    const asked = world.helper.requests.length;
    await world.clock.jump(30_000);
    expect(world.helper.requests.length).toBe(asked + 1);
    expect(world.listing.peek().status.state).toBe('FRESH');
    release();
  });

  it('hears a doorbell at most once a second and 12 times a minute', async () => {
    using world = scriptedListing({ MUXWARDEN_LISTING_INTERVAL_MS: '3600000' });
    const { listing, clock } = world;
    const asked: number[] = [];
    world.helper.always = () => {
      asked.push(clock.monotonic());
      return snapshotRows();
    };
    const release = listing.watch();
    for (let tenth = 0; tenth < 1_799; tenth++) {
      listing.doorbell();
      await clock.advance(100);
    }
    const heard = asked.slice(1);
    for (const [at, time] of heard.entries()) {
      if (at > 0) expect(time - (heard[at - 1] ?? 0)).toBeGreaterThanOrEqual(1_000);
      if (at >= 12) expect(time - (heard[at - 12] ?? 0)).toBeGreaterThanOrEqual(60_000);
    }
    expect(heard).toHaveLength(36);
    release();
  });

  it('hears it no more often when it is read all the time and nobody follows', async () => {
    using world = scriptedListing({ MUXWARDEN_LISTING_INTERVAL_MS: '3600000' });
    const { listing, clock } = world;
    world.helper.always = () => snapshotRows();
    await listing.read();
    const asked = world.helper.requests.length;
    for (let tenth = 0; tenth < 600; tenth++) {
      listing.doorbell();
      await listing.read();
      await clock.advance(100);
    }
    expect(world.helper.requests.length - asked).toBe(12);
  });

  it('hears none while its member is not asked because it fails', async () => {
    using world = scriptedListing({ MUXWARDEN_LISTING_INTERVAL_MS: '1000' });
    const { listing, clock } = world;
    const asked = async (ring: () => void) => {
      const before = world.helper.requests.length;
      for (let second = 0; second < 300; second++) {
        ring();
        await clock.advance(1_000);
      }
      return world.helper.requests.length - before;
    };
    world.helper.always = () => new HelperError('HELPER_FAILED', 'no');
    const release = listing.watch();
    await clock.advance(120_000);
    expect(await asked(() => listing.doorbell())).toBe(await asked(() => {}));
    release();
  });
});

describe('a server', () => {
  it('that ended is shown as ABSENT for ten minutes, then no longer', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    const release = world.listing.watch();
    await world.clock.advance(10);
    world.helper.always = (request) =>
      snapshotRows({ servers: request.includes('extra=') ? [{ code: 'EDEAD' }] : [] });
    await world.clock.advance(10_000);
    expect(world.listing.peek().servers).toMatchObject([{ status: 'ABSENT', sessions: [] }]);
    await world.clock.advance(610_000);
    expect(world.listing.peek().servers).toEqual([]);
    release();
  });

  it('that lost its path is told apart by its generation, and keeps its rows', async () => {
    using world = scriptedListing();
    world.helper.always = () => snapshotRows();
    await world.listing.read();
    world.helper.always = () =>
      snapshotRows({
        servers: [
          { pid: 999, ticks: '888', sessions: ['new'] },
          { code: 'ETAKEN', detail: 'another server has its path' },
        ],
      });
    const { servers } = await world.listing.refresh();
    expect(servers).toHaveLength(2);
    const old = servers?.find((server) => server.ref.generation !== undefined);
    expect(old).toMatchObject({
      ref: { ...ref, generation: `${bootId}:4242:777` },
      status: 'RUNNING',
      reason: 'PATH_TAKEN',
      listing: { state: 'STALE' },
      sessions: [{ name: 'main' }],
    });
    const present = servers?.find((server) => server.ref.generation === undefined);
    expect(present).toMatchObject({ generation: `${bootId}:999:888`, sessions: [{ name: 'new' }] });
  });

  it('with a row of the wrong length drops and counts that row, and says so', async () => {
    using world = scriptedListing();
    const extraRows = ['session\t9\t1\tglued', 'window\t7\t1\t0\t1\tx\tof no session'];
    world.helper.always = () => snapshotRows({ servers: [{ extraRows }] });
    const listing = await world.listing.read();
    expect(names(listing)).toEqual(['main']);
    expect(listing.servers?.[0]?.listing).toMatchObject({
      state: 'FRESH',
      reason: 'MALFORMED_ANSWER',
      detail: '2 rows could not be read and are left out',
    });
  });
});

type Step =
  | { readonly kind: 'advance'; readonly ms: number }
  | { readonly kind: 'read' | 'refresh' | 'fail' | 'act' | 'watch' | 'leave' | 'bell' }
  | { readonly kind: 'answer'; readonly code: string; readonly sessions: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('advance' as const),
      ms: fc.integer({ min: 0, max: 9_000 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('read', 'refresh', 'fail', 'act', 'watch', 'leave', 'bell'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('answer' as const),
      code: fc.constantFrom('OK', 'OK', 'TIMEOUT', 'STOPPED', 'EDEAD', 'ETOOBIG', 'EGONE'),
      sessions: fc.integer({ min: 0, max: 3 }),
    }),
  },
);

describe('whatever happens', () => {
  it('unknown is null and never empty, FRESH is young, one snapshot is in flight, versions tell every change', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        using world = scriptedListing();
        const { clock, helper, listing } = world;
        const releases: (() => void)[] = [];
        const seen = new Map<string, string>();
        for (const next of steps) {
          if (next.kind === 'advance') await clock.advance(next.ms);
          else if (next.kind === 'read') void listing.read();
          else if (next.kind === 'refresh') void listing.refresh();
          else if (next.kind === 'act') listing.writeThrough(ref, { kind: 'ended' });
          else if (next.kind === 'bell') listing.doorbell();
          else if (next.kind === 'watch') releases.push(listing.watch());
          else if (next.kind === 'leave') releases.pop()?.();
          else if (helper.inFlight > 0) {
            helper.answer(next.kind === 'answer' ? snapshotOf(next) : timeout());
          }
          await settle();
          const view = listing.peek();
          expect(helper.mostInFlight).toBeLessThanOrEqual(1);
          checkAges(view, clock.now());
          const looks = visible(view);
          expect(seen.get(view.status.version) ?? looks).toBe(looks);
          seen.set(view.status.version, looks);
        }
        for (const release of releases) release();
      }),
      { numRuns: rounds(150, 5_000) },
    );
  });
});

function snapshotOf({ code, sessions }: Extract<Step, { kind: 'answer' }>) {
  const list = Array.from({ length: sessions }, (_, index) => `s${index}`);
  return snapshotRows({
    servers: [{ code, sessions: list, state: code === 'STOPPED' ? 'T' : 'S' }],
  });
}

function checkAges({ status, servers }: MemberListing, now: number): void {
  const age = now - (status.observedAt?.getTime() ?? Number.NEGATIVE_INFINITY);
  expect(servers === null).toBe(status.state === 'UNKNOWN');
  if (status.state === 'FRESH') expect(age).toBeLessThanOrEqual(8_000);
  for (const server of servers ?? []) {
    const rowsAge = now - (server.listing.observedAt?.getTime() ?? Number.NEGATIVE_INFINITY);
    expect(server.sessions === null).toBe(server.listing.state === 'UNKNOWN');
    if (server.listing.state === 'FRESH') expect(rowsAge).toBeLessThanOrEqual(8_000);
    if (server.status === 'ABSENT') expect(server.sessions).toEqual([]);
  }
}

/** All that a reader sees but figures and times. */
function visible({ status, servers }: MemberListing): string {
  const lasting = (one: MemberListing['status']) => [one.state, one.reason, one.detail];
  return JSON.stringify([
    lasting(status),
    servers?.map(({ openFiles, cpuPercent, listing, startedAt, ...server }) => [
      server,
      lasting(listing),
      listing.version,
    ]) ?? null,
  ]);
}

describe('agents and idleness', () => {
  const quiet = 1_767_000_000;
  const claude = { doing: 'program', agent: 'claude' };
  const one = (world: ReturnType<typeof scriptedListing>) => world.listing.peek().servers?.[0];
  const firstPane = (world: ReturnType<typeof scriptedListing>) =>
    one(world)?.sessions?.[0]?.windows[0]?.panes[0];

  it('are asked for by the names of the table', async () => {
    using world = scriptedListing({ MUXWARDEN_AGENTS: 'mine,c=claude' });
    void world.listing.read();
    await settle();
    expect(world.helper.requests[0]).toContain(` agents=${hex('mine')},${hex('claude')}`);
    await world.answer({ servers: [{ facts: [claude], writtenAt: quiet }] });
    expect(firstPane(world)?.agent).toEqual({
      kind: 'c',
      state: 'UNKNOWN',
      since: null,
      evidence: 'PROCESS',
    });
  });

  it('that something was written is a figure: no change, and nobody is woken', async () => {
    using world = scriptedListing();
    let second = quiet;
    world.helper.always = () => snapshotRows({ servers: [{ writtenAt: ++second }] });
    const release = world.listing.watch();
    await world.clock.advance(10);
    const before = world.listing.peek();
    const rings = world.rings.length;
    await world.clock.advance(60_000);
    expect(one(world)?.activity[0]?.at).toEqual(new Date(second * 1_000));
    expect(second).toBe(quiet + 13);
    expect(world.listing.peek().status.version).toBe(before.status.version);
    expect(one(world)?.sessions).toBe(before.servers?.[0]?.sessions);
    expect(world.rings).toHaveLength(rings);
    release();
  });

  it('idle turns with a look and never between looks; an old look proves nothing', async () => {
    using world = scriptedListing({ MUXWARDEN_IDLE_AFTER_MS: '20000' });
    const wrote = Math.floor(world.clock.now() / 1_000);
    world.helper.always = () => snapshotRows({ servers: [{ writtenAt: wrote }] });
    const release = world.listing.watch();
    await world.clock.advance(10);
    expect(one(world)).toMatchObject({ idle: false, listing: { state: 'FRESH' } });
    // 20 s and the whole second are over; the look after that sees it.
    await world.clock.advance(24_000);
    const { version } = world.listing.peek().status;
    expect(one(world)?.idle).toBe(false);
    const rings = world.rings.length;
    await world.clock.advance(1_000);
    expect(one(world)?.idle).toBe(true);
    expect(world.listing.peek().status.version).not.toBe(version);
    expect(world.rings).toHaveLength(rings + 1);
    await world.clock.advance(60_000);
    expect(world.rings).toHaveLength(rings + 1);

    release();
    await world.clock.advance(60_000);
    expect(one(world)).toMatchObject({ idle: null, listing: { state: 'STALE' } });
    expect(firstPane(world)?.foreground?.isShell).toBe(true);
  });

  it('a clock that is set ahead proves nobody idle: what was written before then seems old', async () => {
    using world = scriptedListing({ MUXWARDEN_IDLE_AFTER_MS: '20000' });
    const wrote = Math.floor(world.clock.now() / 1_000);
    world.helper.always = () => snapshotRows({ servers: [{ writtenAt: wrote }] });
    const release = world.listing.watch();
    await world.clock.advance(10);
    expect(one(world)?.idle).toBe(false);
    world.clock.setBack(-3_600_000);
    await world.clock.advance(6_000);
    expect(one(world)).toMatchObject({ idle: null, listing: { state: 'FRESH' } });
    await world.clock.advance(18_000);
    expect(one(world)?.idle).toBe(null);
    // For so long nobody has written, by the clock that does not jump.
    await world.clock.advance(6_000);
    expect(one(world)?.idle).toBe(true);
    release();
  });

  it('an agent turns with what it writes, without a change in its rows', async () => {
    using world = scriptedListing();
    let writtenAt = Math.floor(world.clock.now() / 1_000);
    world.helper.always = () => snapshotRows({ servers: [{ facts: [claude], writtenAt }] });
    const release = world.listing.watch();
    await world.clock.advance(10);
    expect(firstPane(world)?.agent).toMatchObject({ state: 'WORKING', evidence: 'OUTPUT' });
    expect(one(world)).toMatchObject({ workingAgents: 1, idle: false });
    const { version } = world.listing.peek().status;
    await world.clock.advance(10_000);
    expect(firstPane(world)?.agent).toMatchObject({ state: 'UNKNOWN', evidence: 'PROCESS' });
    expect(one(world)?.workingAgents).toBe(0);
    expect(world.listing.peek().status.version).not.toBe(version);
    const rings = world.rings.length;
    writtenAt = Math.floor(world.clock.now() / 1_000);
    await world.clock.advance(5_000);
    expect(one(world)?.workingAgents).toBe(1);
    expect(world.rings).toHaveLength(rings + 1);
    release();
  });

  it('what runs in a pane that nobody sees makes both unknown', async () => {
    using world = scriptedListing();
    void world.listing.read();
    await settle();
    await world.answer({ servers: [{ facts: [{ doing: '' }], writtenAt: quiet }] });
    expect(one(world)).toMatchObject({ idle: null, workingAgents: null });
    expect(firstPane(world)?.foreground).toBeNull();
  });

  it('a server that does not answer keeps its last agents while its rows are shown', async () => {
    using world = scriptedListing();
    const facts = [{ ...claude, report: 'working', lasting: '' }];
    world.helper.always = () => snapshotRows({ servers: [{ facts, writtenAt: quiet }] });
    const release = world.listing.watch();
    await world.clock.advance(10);
    expect(one(world)).toMatchObject({ workingAgents: 1, idle: false });
    world.helper.always = () => snapshotRows({ servers: [{ code: 'TIMEOUT' }] });
    await world.clock.advance(5_000);
    expect(one(world)).toMatchObject({ workingAgents: 1, idle: null });
    await world.clock.advance(11_000);
    expect(one(world)).toMatchObject({ workingAgents: null, idle: null, sessions: null });
    release();
  });
});
