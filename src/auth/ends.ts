import { and, inArray, isNull } from 'drizzle-orm';
import type { Clock } from '../concurrency/clock.ts';
import type { Database } from '../database/database.ts';
import { apiKeys, grants, sessions, signInLinks } from '../database/tables.ts';
import type { AccountRows, SessionRow } from './account-rows.ts';
import type { ApiKey } from './accounts.ts';
import { grantMs } from './grants.ts';
import { linkMs, sessionIdleMs } from './sessions.ts';

/**
 * Whether credentials are over. An end is a moment of the wall clock: past it nobody is let in. How far
 * off it is, is measured by the clock that does not jump as well, from the first look on, and what that one
 * ended is over for good: here at once, and for every later process when `storeEnds` has put it into the
 * database. So a wall clock that is set back lengthens no life, and one that was ahead by mistake
 * ends none that goes on once it is right again.
 */
export class Ends {
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly #seen = new Map<string, { readonly end: number; readonly over: number }>();

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock;
  }

  keyIsOver({ id, expiresAt, endedAt }: Pick<ApiKey, 'id' | 'expiresAt' | 'endedAt'>): boolean {
    return endedAt !== null || (expiresAt !== null && this.#look(id, expiresAt).isOver);
  }

  /** @param lastSeenAt may be later than what the row says */
  sessionIsOver({ id, expiresAt }: SessionRow, lastSeenAt: Date): boolean {
    return (
      this.#look(id, expiresAt).isOver || this.#look(`${id} unused`, idleEnd(lastSeenAt)).isOver
    );
  }

  /** What of these is over for good and is not stored so. Forgets all others that were ever asked for. */
  among(rows: AccountRows, lastSeenAt: (session: SessionRow) => Date): Over {
    const forGood = (name: string, end: Date, lifeMs?: number) =>
      this.#look(name, end, lifeMs).isOverForGood;
    const over = {
      apiKeys: rows.apiKeys.filter(
        ({ id, expiresAt, endedAt }) =>
          endedAt === null && expiresAt !== null && forGood(id, expiresAt),
      ),
      sessions: rows.sessions.filter(
        (row) =>
          forGood(row.id, row.expiresAt) || forGood(`${row.id} unused`, idleEnd(lastSeenAt(row))),
      ),
      links: rows.links.filter((row) => forGood(hex(row), row.expiresAt, linkMs)),
      grants: rows.grants.filter((row) => forGood(hex(row), row.expiresAt, grantMs)),
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
  #look(name: string, expiresAt: Date, lifeMs = Number.POSITIVE_INFINITY) {
    const now = this.#clock.monotonic();
    const end = expiresAt.getTime();
    const rest = end - this.#clock.now();
    let seen = this.#seen.get(name);
    if (seen?.end !== end) {
      seen = { end, over: rest > 2 * lifeMs ? now : now + rest };
      this.#seen.set(name, seen);
    }
    const isOverForGood = seen.over <= now;
    return { isOver: isOverForGood || rest <= 0, isOverForGood };
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

const idleEnd = (lastSeenAt: Date) => new Date(lastSeenAt.getTime() + sessionIdleMs);
const hex = ({ tokenHash }: { readonly tokenHash: Buffer }) => tokenHash.toString('hex');
