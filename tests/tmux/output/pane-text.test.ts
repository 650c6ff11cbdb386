import fc from 'fast-check';
import { expect, test } from 'vitest';
import { incompleteTail, textOf } from '../../../src/tmux/output/pane-text.ts';
import { rounds } from '../../support/tier.ts';

/** Text, broken UTF-8 and bytes, side by side. */
const bytes = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 6 }).map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 4 }).map((data) => Buffer.from(data)),
      fc
        .constantFrom(0xe2, 0xf0, 0xc3, 0xed, 0xf4, 0xe0, 0x80, 0xbf)
        .map((byte) => Buffer.of(byte)),
    ),
    { maxLength: 12 },
  )
  .map((parts) => Buffer.concat(parts));

test('the texts of pieces cut anywhere, joined, are the text of the whole', () => {
  const runs = rounds(2_000, 200_000);
  console.log(`text of pieces: ${runs} cuts`);
  fc.assert(
    fc.property(bytes, fc.array(fc.nat(60), { maxLength: 8 }), (whole, cuts) => {
      const at = [
        0,
        ...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b),
        whole.length,
      ];
      let text = '';
      let carry: Uint8Array = new Uint8Array();
      for (const [index, start] of at.slice(0, -1).entries()) {
        const data = whole.subarray(start, at[index + 1]);
        text += textOf(data, carry);
        carry = incompleteTail(Buffer.concat([carry, data]));
      }
      expect(text + Buffer.from(carry).toString('utf8')).toBe(whole.toString('utf8'));
    }),
    { numRuns: runs },
  );
});

test('a character split over two pieces is whole in the later one', () => {
  const [first, second] = [Buffer.from('a漢').subarray(0, 2), Buffer.from('a漢').subarray(2)];
  expect(textOf(first, new Uint8Array())).toBe('a');
  expect(textOf(second, incompleteTail(first))).toBe('漢');
});
