import { createHmac, randomBytes } from 'node:crypto';
import { type Clock, systemClock } from '../concurrency/clock.ts';
import { KeyedMutex } from '../concurrency/keyed-mutex.ts';
import type { Log } from '../database/database.ts';
import type { Members } from '../members/members.ts';
import type { AccountStore } from './account-store.ts';
import { Attempts } from './attempts.ts';
import { checkPassword, hashPassword, PasswordsBusyError } from './passwords.ts';

/**
 * Whether a password is an account's, for sign-in and for re-authentication. Five misses in 15
 * minutes end the tries of one account (seen from one place, before anybody is signed in, so that
 * no outsider locks an account), and fifty those of one address. Tries of one account go one after
 * the other; those that come with the very password that was right a moment ago share that answer,
 * so that a burst of equal calls costs one hash and no tries.
 */
export type Proof =
  | { readonly kind: 'RIGHT' }
  | { readonly kind: 'WRONG'; readonly left: number; readonly retryAt: Date | null }
  | { readonly kind: 'BUSY'; readonly left: number; readonly retryAt: Date };

const windowMs = 15 * 60_000;
const shareMs = 2_000;

export class PasswordProof {
  readonly #accounts: Pick<AccountStore, 'passwordHash'>;
  readonly #members: Pick<Members, 'rehash'>;
  readonly #clock: Clock;
  readonly #log: Log | undefined;
  readonly #tries: Attempts;
  readonly #triesOfAddress: Attempts;
  readonly #turns = new KeyedMutex();
  readonly #digestKey = randomBytes(32);
  /** Of the last right password of a try key; dropped after `shareMs`. */
  readonly #right = new Map<string, string>();

  constructor(
    accounts: Pick<AccountStore, 'passwordHash'>,
    members: Pick<Members, 'rehash'>,
    clock: Clock = systemClock,
    log?: Log,
  ) {
    this.#accounts = accounts;
    this.#members = members;
    this.#clock = clock;
    this.#log = log;
    this.#tries = new Attempts(5, windowMs, clock);
    this.#triesOfAddress = new Attempts(50, windowMs, clock);
  }

  /**
   * @param key what the tries are counted by
   * @param memberId undefined where there is no such account: as slow, and never right
   */
  async prove(
    key: string,
    memberId: string | undefined,
    password: string,
    address: string | null,
  ): Promise<Proof> {
    using _turn = await this.#turns.acquire(key);
    const stored = memberId === undefined ? null : (this.#accounts.passwordHash(memberId) ?? null);
    const digest = createHmac('sha256', this.#digestKey)
      .update(`${stored}\n${password}`)
      .digest('base64url');
    if (stored !== null && this.#right.get(key) === digest) return { kind: 'RIGHT' };
    const place = address ?? 'unknown';
    const fromPlace = this.#triesOfAddress.take(place);
    if (!fromPlace.allowed) return this.#refused(fromPlace.retryInMs);
    const allowance = this.#tries.take(key);
    if (!allowance.allowed) {
      this.#triesOfAddress.giveBack(place);
      return this.#refused(allowance.retryInMs);
    }
    try {
      const { right, outdated } = await checkPassword(password, stored);
      if (!right || stored === null || memberId === undefined) {
        const { left, retryInMs } = allowance;
        return { kind: 'WRONG', left, retryAt: left > 0 ? null : this.#in(retryInMs) };
      }
      if (outdated) await this.#rehash(memberId, stored, password);
    } catch (error) {
      this.#tries.giveBack(key);
      this.#triesOfAddress.giveBack(place);
      if (!(error instanceof PasswordsBusyError)) throw error;
      return { kind: 'BUSY', left: allowance.left + 1, retryAt: this.#in(5_000) };
    }
    this.#tries.giveBack(key);
    this.#triesOfAddress.giveBack(place);
    this.#right.set(key, digest);
    this.#clock.after(shareMs, () => {
      if (this.#right.get(key) === digest) this.#right.delete(key);
    });
    return { kind: 'RIGHT' };
  }

  /** The password was right, whatever becomes of this. */
  async #rehash(memberId: string, stored: string, password: string): Promise<void> {
    try {
      await this.#members.rehash(memberId, stored, await hashPassword(password));
    } catch (err) {
      this.#log?.warn({ err, memberId }, 'a password could not be hashed by the present rules');
    }
  }

  #refused(retryInMs: number): Proof {
    return { kind: 'WRONG', left: 0, retryAt: this.#in(retryInMs) };
  }

  #in(ms: number): Date {
    return new Date(this.#clock.now() + ms);
  }
}
