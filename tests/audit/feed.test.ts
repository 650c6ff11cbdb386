import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Audit, AuditVisibility } from '../../src/audit/audit.ts';
import { encodeFeedCursor } from '../../src/audit/cursor.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import type { AuditEvent } from '../../src/audit/record.ts';
import { Bell } from '../../src/concurrency/bell.ts';
import type { Database } from '../../src/database/database.ts';
import { entry, keptLog } from '../support/audit.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';

type Item = { readonly cursor: string; readonly event: AuditEvent };
const all = () => null;
const place = ({ chain, sequence }: AuditEvent) => `${chain} ${sequence}`;

/** Reads until `count` items came, then leaves. */
async function take(
  audit: Audit,
  after: string | undefined,
  count: number,
  visibleTo: () => AuditVisibility | null | undefined = all,
): Promise<readonly Item[]> {
  const items: Item[] = [];
  if (count === 0) return items;
  const leave = new AbortController();
  for await (const item of await audit.follow(after, visibleTo, leave.signal)) {
    items.push(item);
    if (items.length === count) break;
  }
  return items;
}

describe('the feed', () => {
  let test: TestDatabase;
  let directories: readonly string[];
  let writers: readonly Audit[];
  /** The same database, whose notifications never arrive. */
  let deaf: Audit;
  const start = encodeFeedCursor(new Map());
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
    const make = () => mkdtemp(join(tmpdir(), 'mw-feed-'));
    directories = await Promise.all([make(), make(), make(), make()]);
    const silent: Database = {
      ...test.database,
      notifications: { bell: () => new Bell(), connected: false },
    };
    const open = (index: number, database: Database, pollMs: number) =>
      openAudit(directories[index] ?? '', database, keptLog(), { pollMs });
    writers = await Promise.all([0, 1, 2].map((index) => open(index, test.database, 60_000)));
    deaf = await open(3, silent, 100);
  });
  afterAll(async () => {
    for (const audit of [...writers, deaf]) await audit[Symbol.asyncDispose]();
    for (const directory of directories) await rm(directory, { recursive: true, force: true });
    await test[Symbol.asyncDispose]();
  });
  const writer = (index: number) => writers[index % writers.length] ?? expect.fail();
  const total = async () =>
    Number(
      (await test.database.pool.query('select count(*) as n from audit_events')).rows[0]?.n ?? 0,
    );

  it('gives each row of every chain exactly once, however often and wherever it is cut', async () => {
    let written = await total();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: 2 }), { minLength: 1, maxLength: 25 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 }),
        fc.boolean(),
        async (who, cuts, hears) => {
          const reader = hears ? writer(0) : deaf;
          const write = Promise.all(who.map((index) => writer(index).append(entry())));
          written += who.length;
          const seen: Item[] = [];
          let cursor = start;
          for (let index = 0; seen.length < written; index++) {
            const cut = Math.min(
              (cuts[index % cuts.length] ?? 1) * (index < 40 ? 1 : 1_000),
              written - seen.length,
            );
            const items = await take(reader, cursor, cut);
            seen.push(...items);
            cursor = items.at(-1)?.cursor ?? cursor;
          }
          await write;
          const places = seen.map(({ event }) => place(event));
          expect(new Set(places).size).toBe(written);
          // In the order of each chain.
          const last = new Map<string, number>();
          for (const { event } of seen) {
            expect(event.sequence).toBe((last.get(event.chain) ?? 0) + 1);
            last.set(event.chain, event.sequence);
          }
        },
      ),
      { numRuns: rounds(15, 300) },
    );
  });

  it('wakes by the bell, and without it by looking', async () => {
    for (const reader of [writer(0), deaf]) {
      const leave = new AbortController();
      const items = (await reader.follow(undefined, all, leave.signal))[Symbol.asyncIterator]();
      const next = items.next();
      await new Promise((resolve) => setTimeout(resolve, 300));
      const added = await writer(1).append(entry());
      const { value } = await next;
      expect(value?.event).toEqual(added);
      leave.abort();
      expect((await items.next()).done).toBe(true);
    }
  });

  it('gives followers who may see the same the very same events, made once for all', async () => {
    const leave = new AbortController();
    const feeds = await Promise.all(
      Array.from({ length: 5 }, () => writer(0).follow(undefined, all, leave.signal)),
    );
    const followers = feeds.map((feed) => feed[Symbol.asyncIterator]());
    const next = followers.map((each) => each.next());
    const added = await writer(1).append(entry());
    const events = (await Promise.all(next)).map(({ value }) => value?.event);
    leave.abort();
    for (const each of followers) expect((await each.next()).done).toBe(true);
    expect(events[0]).toEqual(added);
    expect(new Set(events).size).toBe(1);
  });

  it('begins with the present: a row before it does not come, one right after it does', async () => {
    await writer(0).append(entry());
    const leave = new AbortController();
    const feed = await writer(1).follow(undefined, all, leave.signal);
    const added = await writer(0).append(entry());
    for await (const { event } of feed) {
      expect(event).toEqual(added);
      break;
    }
  });

  it('shows what its reader may see, looks at that again for every row, and ends with it', async () => {
    const [mine, other, target] = [randomUUID(), randomUUID(), randomUUID()];
    const from = (await take(writer(0), start, await total())).at(-1)?.cursor;
    const written: AuditEvent[] = [];
    for (const change of [
      { actorId: other },
      { actorId: mine },
      { actorId: other, memberId: target },
      { actorId: other, memberId: other },
      { actorId: mine, memberId: other },
    ])
      written.push(await writer(0).append(entry(change)));
    const visibleTo = { actorId: mine, memberIds: [target] };
    const items = await take(writer(0), from, 3, () => visibleTo);
    expect(items.map(({ event }) => event)).toEqual([written[1], written[2], written[4]]);
    expect(
      (await take(writer(0), from, 1, () => ({ actorId: null, memberIds: [target] })))[0]?.event,
    ).toEqual(written[2]);

    let allowed = true;
    const seen: AuditEvent[] = [];
    const changed = new Bell();
    const feed = await writer(0).follow(
      from,
      () => (allowed ? null : undefined),
      new AbortController().signal,
      changed,
    );
    for await (const { event } of feed) {
      seen.push(event);
      if (seen.length === 2) allowed = false;
    }
    expect(seen).toEqual(written.slice(0, 2));

    // Also while nothing comes: the end does not wait for a row.
    allowed = true;
    const idle = await writer(0).follow(
      undefined,
      () => (allowed ? null : undefined),
      new AbortController().signal,
      changed,
    );
    const next = idle[Symbol.asyncIterator]().next();
    await eventually(() => changed.waiting > 0, 'it waits');
    allowed = false;
    changed.ring();
    expect((await next).done).toBe(true);
    expect(changed.waiting).toBe(0);
  });

  it('refuses a cursor that is none, and one that is ahead of the record', async () => {
    const { signal } = new AbortController();
    for (const bad of ['x', '', encodeFeedCursor(new Map([[randomUUID(), 1]]))])
      await expect(writer(0).follow(bad, all, signal)).rejects.toThrow(RangeError);
  });

  it('leaves nobody waiting when readers go', async () => {
    const leave = new AbortController();
    const readers = await Promise.all(
      Array.from({ length: 50 }, () => writer(0).follow(undefined, all, leave.signal)),
    );
    const ends = readers.map((feed) => feed[Symbol.asyncIterator]().next());
    await eventually(() => writer(0).added.waiting > 0, 'somebody waits');
    leave.abort();
    for (const end of ends) expect((await end).done).toBe(true);
    await writer(0).append(entry());
    await eventually(() => writer(0).added.waiting === 0, 'nobody waits');
  });
});

describe('a page', () => {
  it('holds its place: every row once, newest first, while more come', async () => {
    await using test = await openTestDatabase('embedded');
    let now = 1_700_000_000_000;
    const clock = {
      now: () => now,
      monotonic: () => performance.now(),
      after: (ms: number, ring: () => void) => {
        const timer = setTimeout(ring, ms);
        return () => clearTimeout(timer);
      },
    };
    await using audit = await openAudit(test.config.stateDir, test.database, keptLog(), { clock });
    const [mine, other] = [randomUUID(), randomUUID()];
    const operationId = randomUUID();
    // A wall clock that stands still and jumps back.
    for (let index = 0; index < 40; index++) {
      now += [0, 0, 5, -3][index % 4] ?? 0;
      await audit.append(
        entry({
          actorId: index % 2 ? mine : other,
          outcome: index % 3 ? 'SUCCEEDED' : 'DENIED',
          action: index % 5 ? 'RESTART_PANE' : 'SIGN_IN',
          ...(index === 7 ? { operationId } : {}),
        }),
      );
    }
    const walk = async (first: number) => {
      const seen: AuditEvent[] = [];
      for (let after: string | undefined; ; ) {
        const page = await audit.page({ visibleTo: null }, first, after);
        seen.push(...page.edges.map(({ event }) => event));
        after = page.edges.at(-1)?.cursor;
        if (!page.hasNextPage) return seen;
        if (first === 7) await audit.append(entry());
      }
    };
    for (const first of [1, 7, 100]) {
      const seen = await walk(first);
      expect(new Set(seen.map(({ sequence }) => sequence)).size).toBe(seen.length);
      expect(seen.filter(({ sequence }) => sequence <= 40)).toHaveLength(40);
      const times = seen.map(({ at }) => at.getTime());
      expect(times).toEqual([...times].sort((a, b) => b - a));
    }
    const count = async (filter: Omit<Parameters<Audit['page']>[0], 'visibleTo'>) =>
      (await audit.page({ visibleTo: null, ...filter }, 100)).edges.length;
    expect(await count({ actorId: mine })).toBe(20);
    expect(await count({ outcome: ['DENIED'] })).toBe(14);
    expect(await count({ outcome: [] })).toBe(0);
    expect(await count({ action: ['SIGN_IN'], actorId: mine })).toBe(4);
    expect(await count({ phase: 'INTENT' })).toBe(0);
    expect(await count({ operationId })).toBe(1);
    expect(await count({ from: new Date(now + 100) })).toBe(0);
    expect(await count({ to: new Date(1_700_000_000_000) })).toBe(0);
    const seen = async (visibleTo: AuditVisibility) =>
      (await audit.page({ visibleTo }, 100)).edges.length;
    expect(await seen({ actorId: mine, memberIds: [] })).toBe(20);
    expect(await seen({ actorId: null, memberIds: [] })).toBe(0);
    await expect(audit.page({ visibleTo: null }, 1, 'x')).rejects.toThrow(RangeError);
  });
});
