import type { Bell } from '../concurrency/bell.ts';
import type { Member } from '../members/member.ts';
import type { Scope, Viewer } from './viewer.ts';

/** A key as its owner and an ADMIN see it: never the secret. */
export interface ApiKey {
  readonly id: string;
  readonly publicId: string;
  readonly name: string;
  readonly memberId: string;
  readonly scopes: readonly Scope[];
  readonly memberIds: readonly string[] | null;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  /** When it was first seen to be over by that; it is over for good. */
  readonly endedAt: Date | null;
  readonly lastUsedAt: Date | null;
  readonly revokedAt: Date | null;
}

/**
 * Members and credentials, kept in memory so that no read waits for the database and reads go on
 * while it is away. `changed` rings whenever what this answers may have changed.
 */
export interface Accounts {
  /** Sorted by login; disabled ones included, deleted ones not. */
  members(): readonly Member[];
  member(id: string): Member | undefined;
  memberByLogin(login: string): Member | undefined;
  apiKeys(): readonly ApiKey[];
  /** Whether this viewer's credential and account still reach what they did; its present form, or undefined. */
  current(viewer: Viewer): Viewer | undefined;
  readonly changed: Bell;
}
