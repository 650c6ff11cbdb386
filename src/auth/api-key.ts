import { randomBytes } from 'node:crypto';
import { newSecret } from './secret.ts';

/**
 * `mw_<public id>_<secret>`: the public id names the key in lists and records, the secret is shown
 * once and stored as its hash.
 */
export interface KeyText {
  readonly publicId: string;
  readonly secret: string;
}

export function newKeyText(): KeyText {
  return { publicId: randomBytes(8).toString('hex'), secret: newSecret() };
}

export function formatKey({ publicId, secret }: KeyText): string {
  return `mw_${publicId}_${secret}`;
}

/** Undefined for whatever is no key. */
export function parseKey(text: string): KeyText | undefined {
  const [, publicId, secret] = /^mw_([0-9a-f]{16})_([\w-]{43})$/.exec(text) ?? [];
  return publicId === undefined || secret === undefined ? undefined : { publicId, secret };
}

export const keyNameRule = '1 to 100 characters, none of them a control character';

/** What it is for, as its maker says: one line that the database can hold. */
export function isKeyName(text: string): boolean {
  return /^[^\p{Cc}\p{Cs}]{1,100}$/u.test(text);
}
