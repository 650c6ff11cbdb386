import fc from 'fast-check';
import { expect, it } from 'vitest';
import { escapeText } from '../src/escape.ts';

it('shows controls, bidirectional controls and separators as escapes', () => {
  expect(escapeText('a\u001b[31m\nb\tc\u007f\u009b\u202e\u2028d')).toBe(
    'a\\x1b[31m\\nb\\tc\\x7f\\x9b\\u202e\\u2028d',
  );
});

it('leaves names of every script and symbols alone', () => {
  expect(escapeText('é世🙂 Ünïcode שלום')).toBe('é世🙂 Ünïcode שלום');
});

it('never lets a control through, and never shows two texts alike', () => {
  // By what Unicode says of them, not by a list of ours.
  const unsafe = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Cs}\ufeff]/u;
  for (let unit = 0; unit <= 0xffff; unit += 1)
    expect(escapeText(String.fromCharCode(unit))).not.toMatch(unsafe);
  const text = fc.string({ unit: 'binary' });
  fc.assert(
    fc.property(text, text, (one, other) => {
      const shown = escapeText(one);
      expect(shown).not.toMatch(unsafe);
      expect(shown === escapeText(other)).toBe(one === other);
      expect(escapeText(shown).replaceAll('\\\\', '\\')).toBe(shown);
    }),
  );
});

it('shows half a character for what it is', () => {
  expect(escapeText('\ud83d!')).toBe('\\ud83d!');
  expect(escapeText('!\ude42')).toBe('!\\ude42');
});
