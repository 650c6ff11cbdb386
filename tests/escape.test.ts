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
  const text = fc.string({ unit: 'binary' });
  fc.assert(
    fc.property(text, text, (one, other) => {
      const shown = escapeText(one);
      expect(shown).not.toMatch(/[\p{Cc}\u2028-\u202e\u2066-\u2069\u200e\u200f\u061c\ufeff]/u);
      expect(shown === escapeText(other)).toBe(one === other);
      expect(escapeText(shown).replaceAll('\\\\', '\\')).toBe(shown);
    }),
  );
});

it('shows half a character for what it is', () => {
  expect(escapeText('\ud83d!')).toBe('\\ud83d!');
  expect(escapeText('!\ude42')).toBe('!\\ude42');
});
