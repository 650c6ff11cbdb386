import fc from 'fast-check';
import { expect, test } from 'vitest';
import { incompleteTail, textOf } from '../../../src/tmux/output/pane-text.ts';
import { stateAfter, withoutSequences } from '../../../src/tmux/output/plain-text.ts';
import type { SequenceState } from '../../../src/tmux/pane-events.ts';
import { rounds } from '../../support/tier.ts';

const sequences = [
  '\x1b[1;38:5:9m',
  '\x1b]52;c;c2VjcmV0\x07',
  '\x1b]0;title 世\x1b\\',
  '\x1bP$q"p\x1b\\',
  '\x1b_Gi=1\x1b\\',
  '\x1bkname\x1b\\',
  '\x1b(B',
  '\x1b#8',
  '\x1b7',
  '\x1b[?1049h',
  '\x1b[c',
  '\x1b[6n',
  '\x1b]11;?\x07',
  '\x1b[12\x18',
];

test.each(sequences)('%j is no text, wherever it is cut', (sequence) => {
  const whole = Buffer.from(`é世${sequence}🙂\tend\r\n`);
  for (let cut = 0; cut <= whole.length; cut++) {
    expect(pieces(whole, [cut])).toBe('é世🙂\tend\r\n');
  }
});

test('control characters but tab, LF and CR are no text either', () => {
  const all = String.fromCharCode(...Array.from({ length: 0xa1 }, (_, code) => code));
  const printable = String.fromCharCode(...Array.from({ length: 95 }, (_, n) => 32 + n));
  expect(withoutSequences(all.replace('\x1b', ''), 'text')).toBe(`\t\n\r${printable}\u00a0`);
});

test('the plain texts of pieces cut anywhere, joined, are the plain text of the whole', () => {
  const runs = rounds(1_000, 100_000);
  console.log(`plain text of pieces: ${runs} cuts`);
  const part = fc.oneof(
    fc.constantFrom(...sequences, '\x1b', '[', ']', '\x07', '\\').map((text) => Buffer.from(text)),
    fc.string({ unit: 'grapheme', maxLength: 4 }).map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 3 }).map((data) => Buffer.from(data)),
  );
  const bytes = fc.array(part, { maxLength: 12 }).map((parts) => Buffer.concat(parts));
  fc.assert(
    fc.property(bytes, fc.array(fc.nat(80), { maxLength: 8 }), (whole, cuts) => {
      expect(pieces(whole, cuts)).toBe(pieces(whole, []));
    }),
    { numRuns: runs },
  );
});

function pieces(whole: Buffer, cuts: readonly number[]): string {
  const sorted = cuts.map((cut) => Math.min(cut, whole.length)).sort((one, two) => one - two);
  let [text, state, start]: [string, SequenceState, number] = ['', 'text', 0];
  let carry: Uint8Array = new Uint8Array();
  for (const end of [...sorted, whole.length]) {
    const data = whole.subarray(start, end);
    text += withoutSequences(textOf(data, carry), state);
    state = stateAfter(data, state);
    carry = incompleteTail(Buffer.concat([carry, data]));
    start = end;
  }
  return text;
}
