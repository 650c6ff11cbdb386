import { and, inArray, isNull } from 'drizzle-orm';
import type { Clock } from '../concurrency/clock.ts';
import type { Database } from '../database/database.ts';
import { apiKeys, grants, sessions, signInLinks } from '../database/tables.ts';
import type { AccountRows, SessionRow } from './account-rows.ts';
import type { ApiKey } from './accounts.ts';
import { grantMs } from './grants.ts';
import { linkMs, sessionIdleMs } from './sessions.ts';

/**
 * Whether credentials are over. An end is a moment of the wall clock; how far off it is, is measured
 * by the clock that does not jump, from the first look on, so that a wall clock which is set back
 * lengthens no life. What was over once is over for good: here at once, and for every later process
 * when `storeEnds` has put it into the database.
 */
export class Ends {
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly #seen = new Map<string, { readonly end: number; over: number }>();

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock;
  }

  keyIsOver({ id, expiresAt, endedAt }: Pick<ApiKey, 'id' | 'expiresAt' | 'endedAt'>): boolean {
    return endedAt !== null || (expiresAt !== null && this.#isOver(id, expiresAt));
  }

  /** @param lastSeenAt may be later than what the row says */
  sessionIsOver({ id, expiresAt }: SessionRow, lastSeenAt: Date): boolean {
    const idleEnd = new Date(lastSeenAt.getTime() + sessionIdleMs);
    return this.#isOver(id, expiresAt) || this.#isOver(`${id} unused`, idleEnd);
  }

  /** What of these is over and is not stored so. Forgets all others that were ever asked for. */
  among(rows: AccountRows, lastSeenAt: (session: SessionRow) => Date): Over {
    const over = {
      apiKeys: rows.apiKeys.filter((key) => key.endedAt === null && this.keyIsOver(key)),
      sessions: rows.sessions.filter((row) => this.sessionIsOver(row, lastSeenAt(row))),
      links: rows.links.filter((row) => this.#isOver(hex(row), row.expiresAt, linkMs)),
      grants: rows.grants.filter((row) => this.#isOver(hex(row), row.expiresAt, grantMs)),
    };
    const known = new Set([
      ...rows.apiKeys.map(({ id }) => id),
      ...rows.sessions.flatMap(({ id }) => [id, `${id} unused`]),
      ...[...rows.links, ...rows.grants].map(hex),
    ]);
    for (const name of this.#seen.keys()) if (!known.has(name)) this.#seen.delete(name);
    return over;
  }

  /** @param lifeMs how long such a one lives; with much more to go, the clock was set back since it began */
  #isOver(name: string, expiresAt: Date, lifeMs = Number.POSITIVE_INFINITY): boolean {
    const now = this.#clock.monotonic();
    const end = expiresAt.getTime();
    const rest = end - this.#clock.now();
    let seen = this.#seen.get(name);
    if (seen?.end !== end) {
      seen = { end, over: rest > 2 * lifeMs ? now : now + rest };
      this.#seen.set(name, seen);
    }
    if (rest <= 0) seen.over = Math.min(seen.over, now);
    return seen.over <= now;
  }
}

export interface Over {
  readonly apiKeys: readonly Pick<ApiKey, 'id'>[];
  readonly sessions: readonly Pick<SessionRow, 'id'>[];
  readonly links: readonly { readonly tokenHash: Buffer }[];
  readonly grants: readonly { readonly tokenHash: Buffer }[];
}

/** For every process, and for good. */
export async function storeEnds(
  { drizzle }: Pick<Database, 'drizzle'>,
  over: Over,
  endedAt: Date,
): Promise<void> {
  const ids = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id);
  const hashes = (rows: Over['links']) => rows.map(({ tokenHash }) => tokenHash);
  if (over.apiKeys.length > 0)
    await drizzle
      .update(apiKeys)
      .set({ endedAt })
      .where(and(inArray(apiKeys.id, ids(over.apiKeys)), isNull(apiKeys.endedAt)));
  if (over.sessions.length > 0)
    await drizzle
      .update(sessions)
      .set({ endedAt })
      .where(and(inArray(sessions.id, ids(over.sessions)), isNull(sessions.endedAt)));
  if (over.links.length > 0)
    await drizzle.delete(signInLinks).where(inArray(signInLinks.tokenHash, hashes(over.links)));
  if (over.grants.length > 0)
    await drizzle.delete(grants).where(inArray(grants.tokenHash, hashes(over.grants)));
}

const hex = ({ tokenHash }: { readonly tokenHash: Buffer }) => tokenHash.toString('hex');
