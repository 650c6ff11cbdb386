import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  decodeFeedCursor,
  decodePageCursor,
  encodeFeedCursor,
  encodePageCursor,
  mostChains,
} from '../../src/audit/cursor.ts';
import { rounds } from '../support/tier.ts';

const chain = fc.uuid();
const sequence = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const numRuns = rounds(300, 50_000);

it('a feed cursor says every chain again, in whatever order they came', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(chain, sequence), { maxLength: 20 }), (chains) => {
      const position = new Map(chains);
      const text = encodeFeedCursor(position);
      expect(decodeFeedCursor(text)).toEqual(position);
      expect(encodeFeedCursor(new Map([...position].reverse()))).toBe(text);
    }),
    { numRuns },
  );
});

it('a page cursor says its row again', () => {
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 45 }), chain, sequence, (time, name, number) => {
      const row = { at: new Date(time), chain: name, sequence: number };
      expect(decodePageCursor(encodePageCursor(row))).toEqual(row);
    }),
    { numRuns },
  );
});

it('anything else is refused, and each cursor has one spelling', () => {
  const attempt = (decode: (text: string) => unknown, text: string) => {
    try {
      return decode(text);
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError);
      return undefined;
    }
  };
  const bytes = fc.uint8Array({ maxLength: 80 });
  const close = fc.tuple(fc.constantFrom(1, 2), bytes).map(([kind, rest]) => {
    return Buffer.from([kind, ...rest]).toString('base64url');
  });
  fc.assert(
    fc.property(fc.oneof(fc.string(), close), (text) => {
      const feed = attempt(decodeFeedCursor, text);
      if (feed !== undefined) expect(encodeFeedCursor(decodeFeedCursor(text))).toBe(text);
      const page = attempt(decodePageCursor, text);
      if (page !== undefined) expect(encodePageCursor(decodePageCursor(text))).toBe(text);
    }),
    { numRuns: numRuns * 10 },
  );
  expect(() => decodeFeedCursor('')).toThrow(RangeError);
  expect(() => decodeFeedCursor('A'.repeat(40_001))).toThrow(RangeError);
});

it('a feed cursor of 1,000 chains fits into a request, and one more is refused', () => {
  const chains = Array.from({ length: mostChains + 1 }, (_, index) => {
    return [
      `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`,
      Number.MAX_SAFE_INTEGER,
    ] as const;
  });
  const text = encodeFeedCursor(new Map(chains.slice(1)));
  expect(text.length).toBeLessThan(40_000);
  expect(decodeFeedCursor(text).size).toBe(mostChains);
  expect(() => encodeFeedCursor(new Map(chains))).toThrow(RangeError);
});
