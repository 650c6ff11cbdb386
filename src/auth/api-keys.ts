import { randomUUID } from 'node:crypto';
import { and, asc, eq, isNull } from 'drizzle-orm';
import type { Database } from '../database/database.ts';
import { apiKeys as table } from '../database/tables.ts';
import type { ApiKey } from './accounts.ts';
import { formatKey, newKeyText } from './api-key.ts';
import { hashOf } from './secret.ts';
import type { Scope } from './viewer.ts';

export interface NewApiKey {
  readonly memberId: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Null: every member that the owner may touch. */
  readonly memberIds: readonly string[] | null;
  readonly expiresAt: Date | null;
  /** Whether an ADMIN makes it: only then its RESTART stands for a password. */
  readonly madeByAdmin: boolean;
}

export interface MadeApiKey {
  readonly apiKey: ApiKey;
  /** The whole text of it, for this once. */
  readonly key: string;
}

export class InvalidApiKeyError extends Error {
  override readonly name = 'InvalidApiKeyError';
}

/** The keys as the database has them. Every process learns of a change within moments. */
export class ApiKeys {
  readonly #database: Pick<Database, 'drizzle'>;

  constructor(database: Pick<Database, 'drizzle'>) {
    this.#database = database;
  }

  /** The text of the key is here and nowhere else. @throws InvalidApiKeyError */
  create(wanted: NewApiKey, id: string = randomUUID()): Promise<MadeApiKey> {
    return insertKey(this.#database.drizzle, wanted, id);
  }

  /** Oldest first; revoked and expired ones included. */
  list(): Promise<ApiKey[]> {
    return this.#database.drizzle.select(columns).from(table).orderBy(asc(table.createdAt));
  }

  async byPublicId(publicId: string): Promise<(ApiKey & KeyProof) | undefined> {
    const [found] = await this.#database.drizzle
      .select({ ...columns, secretHash: table.secretHash, madeByAdmin: table.madeByAdmin })
      .from(table)
      .where(eq(table.publicId, publicId));
    return found;
  }

  /**
   * Another key that is as this one is, with as long a life; this one ends at `until`, if not before.
   * @throws InvalidApiKeyError for one that has ended
   */
  async rotate(id: string, until: Date, now: Date = new Date()): Promise<MadeApiKey> {
    return await this.#database.drizzle.transaction(async (transaction) => {
      const [old] = await transaction.select().from(table).where(eq(table.id, id)).for('update');
      if (old === undefined || hasEnded(old, now))
        throw new InvalidApiKeyError('This key has ended. Make a new one.');
      const { createdAt, expiresAt } = old;
      const made = await insertKey(transaction, {
        ...old,
        expiresAt: expiresAt && new Date(now.getTime() + expiresAt.getTime() - createdAt.getTime()),
      });
      await transaction
        .update(table)
        .set({ expiresAt: expiresAt !== null && expiresAt < until ? expiresAt : until })
        .where(eq(table.id, id));
      return made;
    });
  }

  /** False: it was revoked before, or never was. */
  async revoke(id: string, at: Date = new Date()): Promise<boolean> {
    const changed = await this.#database.drizzle
      .update(table)
      .set({ revokedAt: at })
      .where(and(eq(table.id, id), isNull(table.revokedAt)))
      .returning({ id: table.id });
    return changed.length > 0;
  }

  /** Revokes the member's keys of that name; for what is kept once and replaced. */
  async revokeNamed(memberId: string, name: string, at: Date = new Date()): Promise<void> {
    await this.#database.drizzle
      .update(table)
      .set({ revokedAt: at })
      .where(and(eq(table.memberId, memberId), eq(table.name, name), isNull(table.revokedAt)));
  }
}

/** Revoked, past its end, or seen past it by a clock that was set back since. */
export function hasEnded(
  { revokedAt, endedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'endedAt' | 'expiresAt'>,
  now: Date = new Date(),
): boolean {
  return revokedAt !== null || endedAt !== null || (expiresAt !== null && expiresAt <= now);
}

/** @throws InvalidApiKeyError */
async function insertKey(
  writer: Pick<Database['drizzle'], 'insert'>,
  wanted: NewApiKey,
  id: string = randomUUID(),
): Promise<MadeApiKey> {
  const name = wanted.name.trim();
  if (name === '' || name.length > 100) {
    throw new InvalidApiKeyError('The name of a key has 1 to 100 characters.');
  }
  if (wanted.scopes.length === 0) throw new InvalidApiKeyError('A key needs at least one scope.');
  const text = newKeyText();
  const [apiKey] = await writer
    .insert(table)
    .values({
      id,
      publicId: text.publicId,
      secretHash: hashOf(text.secret),
      memberId: wanted.memberId,
      name,
      scopes: [...new Set(wanted.scopes)],
      memberIds: wanted.memberIds === null ? null : [...new Set(wanted.memberIds)],
      madeByAdmin: wanted.madeByAdmin,
      expiresAt: wanted.expiresAt,
    })
    .returning(columns);
  if (apiKey === undefined) throw new Error('an insert gave no row');
  return { apiKey, key: formatKey(text) };
}

export interface KeyProof {
  readonly secretHash: Buffer;
  readonly madeByAdmin: boolean;
}

export const columns = {
  id: table.id,
  publicId: table.publicId,
  name: table.name,
  memberId: table.memberId,
  scopes: table.scopes,
  memberIds: table.memberIds,
  createdAt: table.createdAt,
  expiresAt: table.expiresAt,
  endedAt: table.endedAt,
  lastUsedAt: table.lastUsedAt,
  revokedAt: table.revokedAt,
} as const;
