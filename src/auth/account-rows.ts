import { gt, isNull, or } from 'drizzle-orm';
import type { Database } from '../database/database.ts';
import { apiKeys, grants, members, sessions, signInLinks } from '../database/tables.ts';
import type { Member } from '../members/member.ts';
import type { ApiKey } from './accounts.ts';
import { type KeyProof, columns as keyColumns } from './api-keys.ts';

/** One look at who there is and by what they may come in, all of the same moment. */
export interface AccountRows {
  readonly members: readonly (Member & { readonly passwordHash: string | null })[];
  readonly apiKeys: readonly (ApiKey & KeyProof)[];
  /** Those that nobody ended, and that were not seen to be over. */
  readonly sessions: readonly SessionRow[];
  /** Sign-in links and grants that were not used. */
  readonly links: readonly UnusedRow[];
  readonly grants: readonly UnusedRow[];
}

export interface UnusedRow {
  readonly tokenHash: Buffer;
  readonly expiresAt: Date;
}

export interface SessionRow {
  readonly id: string;
  readonly tokenHash: Buffer;
  readonly memberId: string;
  readonly via: 'SESSION' | 'SIGN_IN_LINK';
  readonly lastSeenAt: Date;
  readonly expiresAt: Date;
}

const day = 24 * 3_600_000;

export function readAccountRows(
  database: Pick<Database, 'drizzle'>,
  now: number,
): Promise<AccountRows> {
  return database.drizzle.transaction(
    async (transaction) => ({
      members: await transaction
        .select({
          id: members.id,
          login: members.login,
          role: members.role,
          osUser: members.osUser,
          disabled: members.disabled,
          createdAt: members.createdAt,
          passwordHash: members.passwordHash,
        })
        .from(members)
        .where(isNull(members.deletedAt)),
      apiKeys: await transaction
        .select({
          ...keyColumns,
          secretHash: apiKeys.secretHash,
          madeByAdmin: apiKeys.madeByAdmin,
        })
        .from(apiKeys)
        // Revoked ones stay in lists for a while, not for ever.
        .where(or(isNull(apiKeys.revokedAt), gt(apiKeys.revokedAt, new Date(now - 90 * day)))),
      sessions: await transaction
        .select({
          id: sessions.id,
          tokenHash: sessions.tokenHash,
          memberId: sessions.memberId,
          via: sessions.via,
          lastSeenAt: sessions.lastSeenAt,
          expiresAt: sessions.expiresAt,
        })
        .from(sessions)
        .where(isNull(sessions.endedAt)),
      links: await transaction
        .select({ tokenHash: signInLinks.tokenHash, expiresAt: signInLinks.expiresAt })
        .from(signInLinks)
        .where(isNull(signInLinks.usedAt)),
      grants: await transaction
        .select({ tokenHash: grants.tokenHash, expiresAt: grants.expiresAt })
        .from(grants)
        .where(isNull(grants.usedAt)),
    }),
    { isolationLevel: 'repeatable read', accessMode: 'read only' },
  );
}
