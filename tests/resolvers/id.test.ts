import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeId, encodeId, type GlobalId } from '../../src/resolvers/id.ts';
import { rounds } from '../support/tier.ts';

const uuid = fc.uuid();
const pathHex = fc
  .uint8Array({ minLength: 1, maxLength: 107 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const number = fc.oneof(fc.nat(300), fc.maxSafeNat());
const generation = fc
  .tuple(
    uuid,
    fc.nat(4_194_304),
    number.map((ticks) => ticks % 1e15),
  )
  .map(([boot, pid, ticks]) => `${boot}:${pid}:${ticks}`);
const life = fc.record({ memberId: uuid, pathHex, generation });
const anyId: fc.Arbitrary<GlobalId> = fc.oneof(
  fc.record({ type: fc.constantFrom('Member', 'ApiKey', 'AuditEvent'), id: uuid }),
  fc.record({
    type: fc.constant('TmuxServer'),
    ref: fc.record(
      { memberId: uuid, pathHex, generation },
      { requiredKeys: ['memberId', 'pathHex'] },
    ),
  }),
  fc
    .tuple(life, number)
    .map(([ref, session]) => ({ type: 'TmuxSession' as const, ref: { ...ref, session } })),
  fc
    .tuple(life, number)
    .map(([ref, pane]) => ({ type: 'TmuxPane' as const, ref: { ...ref, pane } })),
  fc.tuple(life, number, number).map(([ref, session, window]) => ({
    type: 'TmuxWindow' as const,
    ref: { ...ref, session, window },
  })),
);
const numRuns = rounds(1_000, 100_000);

describe(`an id (${numRuns} runs each)`, () => {
  it('comes back as what it was made of', () => {
    fc.assert(
      fc.property(anyId, (id) => {
        expect(decodeId(encodeId(id))).toEqual(id);
      }),
      { numRuns },
    );
  });

  it('has one spelling: whatever is accepted is what would be written', () => {
    fc.assert(
      fc.property(
        anyId,
        fc.nat(),
        fc.nat(255),
        fc.constantFrom('change', 'drop', 'insert', 'cut'),
        (id, place, byte, how) => {
          const bytes = [...Buffer.from(encodeId(id), 'base64url')];
          const at = place % bytes.length;
          if (how === 'change') bytes[at] = byte;
          if (how === 'drop') bytes.splice(at, 1);
          if (how === 'insert') bytes.splice(at, 0, byte);
          if (how === 'cut') bytes.length = at;
          const text = Buffer.from(bytes).toString('base64url');
          const decoded = decodeId(text);
          if (decoded !== undefined) expect(encodeId(decoded)).toBe(text);
        },
      ),
      { numRuns },
    );
  });

  it('never throws on garbage, and refuses what is not base64url', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.base64String(), fc.string({ unit: 'binary' })),
        (text) => {
          const decoded = decodeId(text);
          if (decoded !== undefined) expect(encodeId(decoded)).toBe(text);
        },
      ),
      { numRuns },
    );
    for (const text of ['', ' ', '%0', 'AA==', 'a'.repeat(5_000), 'TWVtYmVyOjE']) {
      expect(decodeId(text)).toBeUndefined();
    }
  });

  it('differs for two generations of the same pane', () => {
    const pane = { memberId: '00000000-0000-4000-8000-000000000001', pathHex: '2f61', pane: 0 };
    const boot = '0c5f3a52-7c3e-4a6b-9d0e-3f1f6f2c9b11';
    const ids = [`${boot}:1:10`, `${boot}:1:11`, `${boot}:2:10`].map((each) =>
      encodeId({ type: 'TmuxPane', ref: { ...pane, generation: each } }),
    );
    expect(new Set(ids).size).toBe(3);
  });
});
