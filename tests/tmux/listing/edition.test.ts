import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { HelperError } from '../../../src/tmux/member-helper.ts';
import { settle } from '../../support/fake-clock.ts';
import { scriptedListing } from '../../support/scripted-listing.ts';
import { rounds } from '../../support/tier.ts';

const step = fc.oneof(
  fc.record({ kind: fc.constant('time' as const), ms: fc.integer({ min: 0, max: 20_000 }) }),
  fc.record({ kind: fc.constant('read' as const) }),
  fc.record({ kind: fc.constant('peek' as const) }),
  fc.record({ kind: fc.constant('answer' as const), name: fc.constantFrom('main', 'other') }),
  fc.record({ kind: fc.constant('fail' as const) }),
);
const numRuns = rounds(60, 5_000);

describe('the edition', () => {
  it(`is never the same when another listing is given (${numRuns} runs)`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        using world = scriptedListing();
        const given = new Map<number, unknown>();
        for (const each of steps) {
          const waits = world.helper.inFlight > 0;
          if (each.kind === 'time') await world.clock.advance(each.ms);
          if (each.kind === 'read') void world.listing.read();
          if (each.kind === 'peek') world.listing.peek();
          if (each.kind === 'answer' && waits)
            await world.answer({ servers: [{ sessions: [each.name] }] });
          if (each.kind === 'fail' && waits) {
            world.helper.answer(new HelperError('TIMEOUT', 'no answer'));
            await settle();
          }
          const edition = world.edition();
          const listing = world.listing.peek();
          expect(given.get(edition) ?? listing).toBe(listing);
          given.set(edition, listing);
        }
      }),
      { numRuns },
    );
  });

  it('stays while nothing happens and nothing gets old', async () => {
    using world = scriptedListing();
    void world.listing.read();
    await world.answer();
    const edition = world.edition();
    await world.clock.advance(4_000);
    expect(world.edition()).toBe(edition);
  });

  it('is another one when a listing is not FRESH any more, though nobody looked', async () => {
    using world = scriptedListing();
    void world.listing.read();
    await world.answer();
    const edition = world.edition();
    // Asked again after 5 s, and not answered.
    await world.clock.advance(8_001);
    expect(world.edition()).not.toBe(edition);
    expect(world.listing.peek().status.state).toBe('STALE');
  });
});
