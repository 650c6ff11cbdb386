import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StartGate, type StartKind } from '../../../src/tmux/helper/start-gate.ts';
import { settle } from '../../support/fake-clock.ts';
import { rounds } from '../../support/tier.ts';

describe('the gate for starts', () => {
  it('never lets in more than its limit, nor more than one failing, and forgets nobody', async () => {
    const kind = fc.constantFrom<StartKind>('act', 'read', 'failing');
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 8 }),
        fc.array(kind, { maxLength: 40 }),
        async (limit, kinds) => {
          const gate = new StartGate(limit);
          const inside = new Map<StartKind, number>();
          let served = 0;
          await Promise.all(
            kinds.map(async (each) => {
              const leave = await gate.enter(each);
              inside.set(each, (inside.get(each) ?? 0) + 1);
              expect(gate.inside).toBeLessThanOrEqual(limit);
              expect(inside.get('failing') ?? 0).toBeLessThanOrEqual(1);
              if (limit > 1) expect(inside.get('act') ?? 0).toBeLessThan(limit);
              await Promise.resolve();
              inside.set(each, (inside.get(each) ?? 0) - 1);
              leave();
              leave();
              served++;
            }),
          );
          expect(served).toBe(kinds.length);
          expect([gate.inside, gate.waiting]).toEqual([0, 0]);
        },
      ),
      { numRuns: rounds(200, 5_000) },
    );
  });

  it('lets an act pass reads that wait, and a read pass acts that hold all they may', async () => {
    const gate = new StartGate(2);
    const order: string[] = [];
    const enter = (kind: StartKind) =>
      gate.enter(kind).then((leave) => {
        order.push(kind);
        return leave;
      });
    const [first, second] = await Promise.all([enter('act'), enter('read')]);
    void enter('read');
    void enter('act');
    first();
    await settle();
    expect(order).toEqual(['act', 'read', 'act']);
    second();
    await settle();
    expect(order).toEqual(['act', 'read', 'act', 'read']);
  });

  it('lets go of who waits no longer', async () => {
    const gate = new StartGate(1);
    const leave = await gate.enter('read');
    const abort = new AbortController();
    const waiting = gate.enter('read', abort.signal);
    abort.abort(new Error('left'));
    await expect(waiting).rejects.toThrow('left');
    expect(gate.waiting).toBe(0);
    leave();
    expect(gate.inside).toBe(0);
  });
});
