import { expect, it } from 'vitest';
import { formatKey, newKeyText, parseKey } from '../../src/auth/api-key.ts';

it('is a name and 256 random bits, and read back as it was', () => {
  const text = newKeyText();
  const key = formatKey(text);
  expect(key).toMatch(/^mw_[0-9a-f]{16}_[\w-]{43}$/);
  expect(parseKey(key)).toEqual(text);
  expect(formatKey(newKeyText())).not.toBe(key);
});

it.each([
  '',
  'mw_',
  'mw_0123456789abcdef_',
  'MW_0123456789abcdef_x',
  'Bearer x',
  'x'.repeat(10_000),
])('is not %j', (text) => {
  expect(parseKey(text)).toBeUndefined();
});

it('has nothing before it and nothing after it', () => {
  const key = formatKey(newKeyText());
  for (const text of [` ${key}`, `${key} `, `${key}\n`, `${key}x`, key.slice(0, -1)]) {
    expect(parseKey(text)).toBeUndefined();
  }
});
