import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ClaimClock } from '../../src/audit/claim-clock.ts';
import { findClaim, insertClaims } from '../../src/audit/idempotency-table.ts';
import type { Clock } from '../../src/concurrency/clock.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { rounds } from '../support/tier.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

describe('the time of claims', () => {
  let test: TestDatabase;
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
  });
  afterAll(() => test[Symbol.asyncDispose]());

  const claim = () => ({
    actorId: randomUUID(),
    mutation: 'm',
    key: 'k',
    inputHash: Buffer.from('hash'),
  });
  const made = async () => {
    const mine = claim();
    const act = { intentId: randomUUID(), operationId: randomUUID() };
    await insertClaims(test.database.drizzle, [{ claim: mine, ...act }]);
    return mine;
  };
  const isKept = async (one: ReturnType<typeof claim>) =>
    (await findClaim(test.database.drizzle, one)) !== undefined;
  const counted = async (): Promise<number> => {
    const { rows } = await test.database.pool.query('select ms from claim_clock');
    return Number(rows[0]?.ms);
  };
  /** Another machine, whose clock that never jumps began elsewhere. */
  const service = (clock: Clock, began: number) =>
    new ClaimClock(test.database.drizzle, {
      ...clock,
      monotonic: () => began + clock.monotonic(),
    });

  it('keeps a key for 24 h and hardly longer, whatever the time of day was and is', async () => {
    const clock = new FakeClock();
    const services = [service(clock, 0), service(clock, 9 * day)];
    for (const one of services) await one.forgetOldClaims();
    const [early, late] = [await made(), await made()];
    // As after a clock of the database that was a year behind at one intent, and ahead at the other.
    const set = 'update idempotency_keys set created_at = now() + $2::interval where actor_id = $1';
    await test.database.pool.query(set, [early.actorId, '-1 year']);
    await test.database.pool.query(set, [late.actorId, '1 year']);
    // A third service has counted most of the day.
    await test.database.pool.query('update claim_clock set ms = ms + $1', [23 * 60 * minute]);
    for (const one of services) await one.forgetOldClaims();
    for (let passed = 0; passed < 60 * minute; passed += 2 * minute) {
      await clock.jump(2 * minute);
      for (const one of services) await one.forgetOldClaims();
    }
    expect([await isKept(early), await isKept(late)]).toEqual([true, true]);
    for (let passed = 0; passed < 5 * minute; passed += minute) {
      await clock.jump(minute);
      for (const one of services) await one.forgetOldClaims();
    }
    expect([await isKept(early), await isKept(late)]).toEqual([false, false]);
  });

  it('never runs ahead, however many services count, come late, sleep and start again', async () => {
    const steps = fc.array(
      fc.record({ by: fc.nat(2), after: fc.nat(5 * minute), isStart: fc.boolean() }),
      { minLength: 1, maxLength: 15 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const clock = new FakeClock();
        const services = [0, day, 400 * day].map((began) => service(clock, began));
        for (const one of services) await one.forgetOldClaims();
        const before = await counted();
        let looked = before;
        for (const { by, after, isStart } of all) {
          await clock.jump(after);
          if (isStart) services[by] = service(clock, clock.monotonic());
          await services[by]?.forgetOldClaims();
          expect(await counted()).toBeGreaterThanOrEqual(looked);
          looked = await counted();
          expect(looked - before).toBeLessThanOrEqual(clock.monotonic());
        }
      }),
      { numRuns: rounds(30, 2_000) },
    );
  });

  it('counts no more than two minutes of what was not looked at', async () => {
    const clock = new FakeClock();
    const one = service(clock, 0);
    await one.forgetOldClaims();
    const before = await counted();
    // The database was away; the claim comes before the next look.
    await clock.jump(2 * day);
    const mine = await made();
    await one.forgetOldClaims();
    expect(await counted()).toBe(before + 2 * minute);
    expect(await isKept(mine)).toBe(true);
  });

  it('stands still while no service runs', async () => {
    const clock = new FakeClock();
    const mine = await made();
    const before = await counted();
    await clock.jump(30 * day);
    await service(clock, 0).forgetOldClaims();
    expect([await counted(), await isKept(mine)]).toEqual([before, true]);
  });
});
