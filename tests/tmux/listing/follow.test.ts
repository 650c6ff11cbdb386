import { describe, expect, it } from 'vitest';
import { Followers } from '../../../src/tmux/listing/follow.ts';
import type { ListingChange, MemberListing } from '../../../src/tmux/model.ts';
import { FakeClock, settle } from '../../support/fake-clock.ts';

function listingOf(memberId: string, version: string): MemberListing {
  const status = {
    state: 'FRESH',
    version,
    observedAt: null,
    reason: null,
    detail: null,
    consecutiveFailures: 0,
    nextAttemptAt: null,
  } as const;
  return { memberId, status, servers: [] };
}

/** Members whose listings the test changes, and what is watched of them. */
function world(...memberIds: readonly string[]) {
  const listings = new Map(memberIds.map((id) => [id, listingOf(id, '1')]));
  const watching = new Map<string, number>();
  const followers = new Followers(
    {
      peek: (id) => listings.get(id),
      read: async (id) => listings.get(id),
      watch(id) {
        watching.set(id, (watching.get(id) ?? 0) + 1);
        return () => watching.set(id, (watching.get(id) ?? 0) - 1);
      },
    },
    new FakeClock(),
  );
  const change = (id: string, version: string) => {
    listings.set(id, listingOf(id, version));
    followers.changed(id);
  };
  return { listings, watching, followers, change };
}

const brief = (change: ListingChange | undefined) =>
  change?.kind === 'listing'
    ? `${change.listing.memberId} ${change.listing.status.version}`
    : change?.kind === 'removed'
      ? `removed ${change.memberId}`
      : change?.kind;

describe('a follower', () => {
  it('gets each state once, then synced, then what changes', async () => {
    const { followers, change } = world('a', 'b');
    const abort = new AbortController();
    const events = followers.follow(() => ['a', 'b'], abort.signal);
    const next = async () => brief((await events.next()).value ?? undefined);
    expect([await next(), await next(), await next()]).toEqual(['a 1', 'b 1', 'synced']);
    const later = next();
    await settle();
    change('b', '2');
    expect(await later).toBe('b 2');
    abort.abort();
    expect((await events.next()).done).toBe(true);
    expect(followers.count).toBe(0);
  });

  it('that is slow gets the latest state of each member, and no queue of old ones', async () => {
    const { followers, change } = world('a', 'b');
    const abort = new AbortController();
    const events = followers.follow(() => ['a', 'b'], abort.signal);
    for (let event = 0; event < 3; event++) await events.next();
    for (let version = 2; version <= 1_000; version++) change('a', String(version));
    change('b', '2');
    expect(brief((await events.next()).value ?? undefined)).toBe('a 1000');
    expect(brief((await events.next()).value ?? undefined)).toBe('b 2');
    const idle = events.next();
    await settle();
    abort.abort();
    expect((await idle).done).toBe(true);
  });

  it('hears of what changes between its own steps', async () => {
    const { followers, change } = world('a');
    const abort = new AbortController();
    const events = followers.follow(() => ['a'], abort.signal);
    expect(brief((await events.next()).value ?? undefined)).toBe('a 1');
    change('a', '2');
    expect(brief((await events.next()).value ?? undefined)).toBe('synced');
    expect(brief((await events.next()).value ?? undefined)).toBe('a 2');
    abort.abort();
  });

  it('is not woken by a change back to what it knows', async () => {
    const { followers, change } = world('a', 'b');
    const abort = new AbortController();
    const events = followers.follow(() => ['a', 'b'], abort.signal);
    for (let event = 0; event < 3; event++) await events.next();
    const next = events.next();
    await settle();
    change('a', '1');
    await settle();
    change('b', '2');
    expect(brief((await next).value ?? undefined)).toBe('b 2');
    abort.abort();
  });

  it('starts nothing until it is read, and lets go of everything when it leaves', async () => {
    const { followers, watching } = world('a');
    const abort = new AbortController();
    const events = followers.follow(() => ['a'], abort.signal);
    await settle();
    expect([followers.count, watching.get('a')]).toEqual([0, undefined]);
    await events.next();
    expect([followers.count, watching.get('a')]).toEqual([1, 1]);
    await events.return();
    expect([followers.count, watching.get('a')]).toEqual([0, 0]);
  });

  it('follows exactly who is there, as members come and go', async () => {
    const { followers, watching, listings } = world('a');
    const abort = new AbortController();
    let ids = ['a', 'b'];
    const events = followers.follow(() => ids, abort.signal);
    const next = async () => brief((await events.next()).value ?? undefined);
    expect([await next(), await next()]).toEqual(['a 1', 'synced']);
    listings.set('b', listingOf('b', '1'));
    followers.membersChanged();
    expect(await next()).toBe('b 1');
    ids = ['b'];
    followers.membersChanged();
    expect(await next()).toBe('removed a');
    expect([watching.get('a'), watching.get('b')]).toEqual([0, 1]);
    ids = ['a', 'b'];
    followers.membersChanged();
    // As new: it may have missed anything meanwhile.
    expect(await next()).toBe('a 1');
    abort.abort();
  });
});
