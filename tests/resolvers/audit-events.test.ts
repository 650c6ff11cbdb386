import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Audit, AuditUnreadableError } from '../../src/audit/audit.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import { maySeeAuditEvent } from '../../src/auth/authority.ts';
import { Bell } from '../../src/concurrency/bell.ts';
import { auditEventAdded, auditEvents, auditVisibility } from '../../src/resolvers/audit-events.ts';
import { actingContext, member, ScriptedFleet, viewer } from '../support/acting.ts';
import { entry, keptLog } from '../support/audit.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';

describe('who sees which row of the record', () => {
  let test: TestDatabase;
  let audit: Audit;
  const members = [member('ADMIN'), member('ANALYST'), member('DEVELOPER')];
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
    audit = await openAudit(test.config.stateDir, test.database, keptLog());
    const somebody = [...members.map(({ id }) => id), randomUUID(), null];
    for (const actorId of somebody)
      for (const memberId of somebody) await audit.append(entry({ actorId, memberId }));
  });
  afterAll(async () => {
    await audit[Symbol.asyncDispose]();
    await test[Symbol.asyncDispose]();
  });

  const credential = fc.record({
    of: fc.constantFrom(...members),
    memberIds: fc.option(fc.subarray(members.map(({ id }) => id)).map((ids) => new Set(ids))),
    reads: fc.boolean(),
  });

  it('is decided by the database exactly as by the rule, for pages', async () => {
    const every = (await audit.page({ visibleTo: null }, 100)).edges.map(({ event }) => event);
    expect(every).toHaveLength(25);
    await fc.assert(
      fc.asyncProperty(credential, async ({ of, memberIds, reads }) => {
        const who = viewer(of, { memberIds, scopes: new Set(reads ? ['READ'] : ['ACT']) });
        const allowed = every.filter((event) => maySeeAuditEvent(who, event));
        const visibleTo = auditVisibility(who);
        expect(visibleTo === undefined).toBe(!reads);
        const page = visibleTo === undefined ? { edges: [] } : await audit.page({ visibleTo }, 100);
        expect(page.edges.map(({ event }) => event)).toEqual(allowed);
      }),
      { numRuns: 60 },
    );
  });

  const as = (who: ReturnType<typeof viewer>, changed = new Bell()) =>
    actingContext({ audit, fleet: new ScriptedFleet(), viewer: who, members, changed });
  const developer = members[2] ?? expect.fail();

  it('is not known, and that is said, while the database is away', async () => {
    const away = Object.assign(Object.create(audit), {
      page: () => Promise.reject(new Error('connect ECONNREFUSED')),
    });
    const context = { ...as(viewer(developer)), audit: away };
    await expect(auditEvents(context, {}, {})).rejects.toThrow(AuditUnreadableError);
  });

  it('is nothing at all without the scope READ', async () => {
    const context = as(viewer(developer, { scopes: new Set(['ACT']) }));
    await expect(auditEvents(context, {}, {})).rejects.toMatchObject({ code: 'FORBIDDEN' });
    await expect(auditEventAdded(context, undefined)).rejects.toMatchObject({ code: 'FORBIDDEN' });
  });

  it('comes in pages from 1 to 100, by cursors of its own', async () => {
    const context = as(viewer(developer));
    const first = await auditEvents(context, { first: 4 }, {});
    expect([first.edges.length, first.hasNextPage, first.hasPreviousPage]).toEqual([
      4,
      true,
      false,
    ]);
    const second = await auditEvents(context, { first: 100, after: first.edges[3]?.cursor }, {});
    expect([second.edges.length, second.hasNextPage, second.hasPreviousPage]).toEqual([
      5,
      false,
      true,
    ]);
    for (const bad of [{ first: 0 }, { first: 101 }])
      await expect(auditEvents(context, bad, {})).rejects.toMatchObject({
        code: 'BAD_USER_INPUT',
        message: expect.stringMatching(/`first`/),
      });
    await expect(auditEvents(context, { after: 'x' }, {})).rejects.toMatchObject({
      code: 'BAD_USER_INPUT',
      message: expect.stringMatching(/`after`/),
    });
    await expect(auditEventAdded(context, 'x')).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
  });

  it('ends, as a feed, with the authority of its reader, and with a service that drains', async () => {
    const changed = new Bell();
    let there = true;
    const context = as(viewer(developer), changed);
    const asked = { ...context.accounts, current: () => (there ? context.viewer : undefined) };
    const draining = new AbortController();
    const open = async () =>
      (
        await auditEventAdded({ ...context, accounts: asked, draining: draining.signal }, undefined)
      )[Symbol.asyncIterator]();
    const feed = await open();
    const next = feed.next();
    await audit.append(entry());
    const mine = await audit.append(entry({ memberId: developer.id }));
    expect((await next).value?.auditEvent.id).toBe(mine.id);
    const end = feed.next();
    there = false;
    changed.ring();
    expect((await end).done).toBe(true);
    there = true;
    const other = (await open()).next();
    draining.abort();
    expect((await other).done).toBe(true);
  });
});
