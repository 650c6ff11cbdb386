import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** 256 random bits for a URL, a header or a cookie; only their SHA-256 is stored. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url');
}

export function hashOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

export function sameHash(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}
