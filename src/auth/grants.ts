import { createHash } from 'node:crypto';
import { and, eq, gt, isNotNull, isNull, lt } from 'drizzle-orm';
import { type Clock, systemClock } from '../concurrency/clock.ts';
import type { Database, Log } from '../database/database.ts';
import { grants as table } from '../database/tables.ts';
import type { Grant, ProvenAct } from './reauthentication.ts';
import { hashOf, newSecret } from './secret.ts';
import type { Viewer } from './viewer.ts';

/**
 * Grants: a password that was given for one act, a moment before it. Each works once, for 60 s, for
 * the credential that asked and the act that was named. Two hashes are stored: of the grant, and of
 * what it is bound to.
 *
 * The end is kept by both clocks: the stored moment holds everywhere, and whoever gave the grant
 * removes it when a minute has really passed, so a wall clock that is set back revives none, and one
 * that is ahead takes none away. Where that process is gone by then, the next one does (`ends.ts`).
 */
export const grantMs = 60_000;

export class Grants {
  readonly #database: Pick<Database, 'drizzle'>;
  readonly #clock: Clock;
  readonly #log: Log | undefined;

  constructor(database: Pick<Database, 'drizzle'>, clock: Clock = systemClock, log?: Log) {
    this.#database = database;
    this.#clock = clock;
    this.#log = log;
  }

  async give(viewer: Viewer, act: ProvenAct): Promise<Grant> {
    const grant = newSecret();
    const tokenHash = hashOf(grant);
    const now = this.#clock.now();
    const expiresAt = new Date(now + grantMs);
    const { drizzle } = this.#database;
    await drizzle.delete(table).where(lt(table.usedAt, new Date(now - grantMs)));
    await drizzle.insert(table).values({
      tokenHash,
      memberId: viewer.member.id,
      binding: bindingOf(viewer, act),
      expiresAt,
    });
    this.#clock.after(grantMs, () => {
      this.#remove(tokenHash).catch((err: unknown) =>
        this.#log?.warn({ err }, 'a grant that is over could not be removed; its end holds'),
      );
    });
    return { grant, expiresAt };
  }

  /** Whether it could be used for this act, now. */
  async holds(viewer: Viewer, grant: string, act: ProvenAct): Promise<boolean> {
    const found = await this.#database.drizzle
      .select({ memberId: table.memberId })
      .from(table)
      .where(this.#usable(viewer, grant, act));
    return found.length > 0;
  }

  /** Uses it up. False: it can't be used (any more), for this act. */
  async use(viewer: Viewer, grant: string, act: ProvenAct): Promise<boolean> {
    const used = await this.#database.drizzle
      .update(table)
      .set({ usedAt: new Date(this.#clock.now()) })
      .where(this.#usable(viewer, grant, act))
      .returning({ memberId: table.memberId });
    return used.length > 0;
  }

  /** For a use after which nothing was done: only whoever used it may say so. */
  async unuse(grant: string): Promise<void> {
    await this.#database.drizzle
      .update(table)
      .set({ usedAt: null })
      .where(and(eq(table.tokenHash, hashOf(grant)), isNotNull(table.usedAt)));
  }

  withdraw(grant: string): Promise<void> {
    return this.#remove(hashOf(grant));
  }

  async #remove(tokenHash: Buffer): Promise<void> {
    await this.#database.drizzle.delete(table).where(eq(table.tokenHash, tokenHash));
  }

  #usable(viewer: Viewer, grant: string, act: ProvenAct) {
    return and(
      eq(table.tokenHash, hashOf(grant)),
      eq(table.binding, bindingOf(viewer, act)),
      isNull(table.usedAt),
      gt(table.expiresAt, new Date(this.#clock.now())),
    );
  }
}

/** The order of targets does not matter; everything else does. */
function bindingOf({ member, via, credentialId }: Viewer, act: ProvenAct): Buffer {
  const { action, memberId, provision = null } = act;
  const targets = act.targets.map(({ id, generation }) => `${id} ${generation}`).sort();
  const text = JSON.stringify([member.id, via, credentialId, action, targets, memberId, provision]);
  return createHash('sha256').update(text).digest();
}
