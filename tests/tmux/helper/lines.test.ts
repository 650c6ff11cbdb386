import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Lines } from '../../../src/tmux/helper/lines.ts';
import { rounds } from '../../support/tier.ts';

const linesOf = (each: readonly string[]) =>
  Lines.of(Buffer.from(each.map((text) => `${text}\n`).join('')));
const few = fc.constantFrom('', 'a', 'ab', 'b', 'ba', 'aa', 'é', '世');
const numRuns = rounds(500, 20_000);

describe('lines', () => {
  it(`differ exactly where their text does (${numRuns} runs)`, () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(few, few), { maxLength: 40 }), (pairs) => {
        const [ones, others] = [pairs.map(([one]) => one), pairs.map(([, other]) => other)];
        const [before, after] = [linesOf(ones), linesOf(others)];
        const numbers = ones.flatMap((text, at) => (text === others[at] ? [] : [at]));
        expect(after.differing(before)).toEqual(numbers);
        expect(after.kept().differing(before.kept())).toEqual(numbers);
      }),
      { numRuns },
    );
  });

  it('of a part are that part of the lines, also once they are kept', () => {
    fc.assert(
      fc.property(fc.array(few, { maxLength: 20 }), fc.nat(20), fc.nat(20), (texts, one, other) => {
        const [from, to] = [Math.min(one, other, texts.length), Math.max(one, other)];
        for (const lines of [linesOf(texts).part(from, Math.min(to, texts.length))]) {
          const expected = texts.slice(from, to);
          for (const each of [lines, lines.kept()]) {
            expect(each.count).toBe(expected.length);
            expect(expected.map((_, at) => each.text(at))).toEqual(expected);
            expect(each.toString()).toBe(expected.map((text) => `${text}\n`).join(''));
          }
        }
      }),
      { numRuns },
    );
  });

  it('without a line feed at the end have a last line all the same', () => {
    const lines = Lines.of(Buffer.from('one\ntwo'));
    expect([lines.count, lines.text(0), lines.text(1)]).toEqual([2, 'one', 'two']);
    expect(Lines.of(Buffer.alloc(0)).count).toBe(0);
  });
});
