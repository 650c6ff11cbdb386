import { randomUUID } from 'node:crypto';
import { and, eq, gt, isNull, lt } from 'drizzle-orm';
import { type Clock, systemClock } from '../concurrency/clock.ts';
import type { Database } from '../database/database.ts';
import { members, signInLinks, sessions as table } from '../database/tables.ts';
import { endSessions } from '../members/end-sessions.ts';
import { placeOf } from './place.ts';
import { hashOf, newSecret } from './secret.ts';

/**
 * Sign-in links and the sessions that they, or a password, begin. A link works once, within ten
 * minutes. A session ends when it was not used for twelve hours, and after a week in any case. Rows are
 * removed once they are known to be over (`ends.ts`), never by a wall clock that may be ahead.
 */
export const sessionIdleMs = 12 * 3_600_000;
export const sessionMaxMs = 7 * 24 * 3_600_000;
export const linkMs = 10 * 60_000;

export interface NewSession {
  readonly id: string;
  readonly memberId: string;
  /** For the cookie. */
  readonly token: string;
  readonly expiresAt: Date;
}

export class Sessions {
  readonly #database: Pick<Database, 'drizzle'>;
  readonly #clock: Pick<Clock, 'now'>;

  constructor(database: Pick<Database, 'drizzle'>, clock: Pick<Clock, 'now'> = systemClock) {
    this.#database = database;
    this.#clock = clock;
  }

  /** The token of a one-time link; `signInUrl` makes a URL of it. */
  async createLink(
    memberId: string,
  ): Promise<{ readonly token: string; readonly expiresAt: Date }> {
    const token = newSecret();
    const now = this.#clock.now();
    const expiresAt = new Date(now + linkMs);
    const { drizzle } = this.#database;
    await drizzle.delete(signInLinks).where(lt(signInLinks.usedAt, new Date(now - sessionMaxMs)));
    await drizzle.insert(signInLinks).values({ tokenHash: hashOf(token), memberId, expiresAt });
    return { token, expiresAt };
  }

  /** Undefined for a link that is used, expired, unknown, or of a member who may not sign in. */
  redeemLink(token: string, address: string | null = null): Promise<NewSession | undefined> {
    const now = new Date(this.#clock.now());
    return this.#database.drizzle.transaction(async (transaction) => {
      // One statement decides, so that of two who come at once one gets it.
      const [used] = await transaction
        .update(signInLinks)
        .set({ usedAt: now })
        .where(
          and(
            eq(signInLinks.tokenHash, hashOf(token)),
            isNull(signInLinks.usedAt),
            gt(signInLinks.expiresAt, now),
          ),
        )
        .returning({ memberId: signInLinks.memberId });
      if (used === undefined) return undefined;
      const [member] = await transaction
        .select({ id: members.id })
        .from(members)
        .where(
          and(
            eq(members.id, used.memberId),
            eq(members.disabled, false),
            isNull(members.deletedAt),
          ),
        );
      return member && this.#begin(transaction, member.id, 'SIGN_IN_LINK', address);
    });
  }

  /** For a member whose password was right. */
  begin(memberId: string, address: string | null): Promise<NewSession> {
    return this.#begin(this.#database.drizzle, memberId, 'SESSION', address);
  }

  /** Whether this login began a session from that place within the last week or two. */
  async knows(login: string, address: string | null): Promise<boolean> {
    const found = await this.#database.drizzle
      .select({ id: table.id })
      .from(table)
      .innerJoin(members, eq(members.id, table.memberId))
      .where(
        and(eq(members.login, login), isNull(members.deletedAt), eq(table.place, placeOf(address))),
      )
      .limit(1);
    return found.length > 0;
  }

  /** False: it had ended before. */
  async end(id: string): Promise<boolean> {
    const ended = await this.#database.drizzle
      .update(table)
      .set({ endedAt: new Date(this.#clock.now()) })
      .where(and(eq(table.id, id), isNull(table.endedAt)))
      .returning({ id: table.id });
    return ended.length > 0;
  }

  /** Signs the member out everywhere; links and grants that were not used yet are gone as well. */
  async endAll(memberId: string): Promise<void> {
    await this.#database.drizzle.transaction((transaction) =>
      endSessions(transaction, memberId, new Date(this.#clock.now())),
    );
  }

  async #begin(
    writer: Pick<Database['drizzle'], 'insert' | 'delete'>,
    memberId: string,
    via: 'SESSION' | 'SIGN_IN_LINK',
    address: string | null,
  ): Promise<NewSession> {
    const now = this.#clock.now();
    const session = {
      id: randomUUID(),
      memberId,
      token: newSecret(),
      expiresAt: new Date(now + sessionMaxMs),
    };
    await writer.delete(table).where(lt(table.endedAt, new Date(now - sessionMaxMs)));
    await writer.insert(table).values({
      id: session.id,
      tokenHash: hashOf(session.token),
      memberId,
      via,
      createdAt: new Date(now),
      lastSeenAt: new Date(now),
      expiresAt: session.expiresAt,
      place: placeOf(address),
    });
    return session;
  }
}

/** The token is in the fragment, which browsers send to nobody: the page there posts it. */
export function signInUrl(serviceUrl: string, token: string): string {
  return new URL(`/sign-in#${token}`, serviceUrl).href;
}
