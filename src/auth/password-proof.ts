import { createHmac, randomBytes } from 'node:crypto';
import { type Clock, systemClock } from '../concurrency/clock.ts';
import { KeyedMutex } from '../concurrency/keyed-mutex.ts';
import type { Log } from '../database/database.ts';
import type { Members } from '../members/members.ts';
import type { AccountStore } from './account-store.ts';
import { Attempts } from './attempts.ts';
import { checkPassword, hashPassword, PasswordsBusyError } from './passwords.ts';
import { placeOf } from './place.ts';

/**
 * Whether a password is an account's, for sign-in and for re-authentication. Five misses in 15
 * minutes end the tries of one account (seen from one place, before anybody is signed in, so that
 * no outsider locks an account), fifty those of one place, and five hundred those of everybody but
 * who may go `beyondCap`. Tries of one account go one after the other; those that come with the very
 * password that was right a moment ago share that answer, so that a burst of equal calls costs one
 * hash and no tries.
 */
export type Proof =
  | { readonly kind: 'RIGHT' }
  | {
      readonly kind: 'WRONG';
      readonly left: number;
      readonly retryAt: Date | null;
      /** False: no try was left, so the password was not looked at. */
      readonly tried: boolean;
    }
  | { readonly kind: 'BUSY'; readonly left: number; readonly retryAt: Date };

export const windowMs = 15 * 60_000;
const shareMs = 2_000;

export class PasswordProof {
  readonly #accounts: Pick<AccountStore, 'passwordHash'>;
  readonly #members: Pick<Members, 'rehash'>;
  readonly #clock: Clock;
  readonly #log: Log | undefined;
  readonly #tries: Attempts;
  readonly #triesOfPlace: Attempts;
  readonly #triesOfAll: Attempts;
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
    this.#triesOfPlace = new Attempts(50, windowMs, clock);
    this.#triesOfAll = new Attempts(500, windowMs, clock);
  }

  /**
   * @param key what the tries are counted by
   * @param memberId undefined where there is no such account: as slow, and never right
   * @param beyondCap asked once the tries of everybody are used up
   */
  async prove(
    key: string,
    memberId: string | undefined,
    password: string,
    address: string | null,
    beyondCap: () => Promise<boolean> = async () => false,
  ): Promise<Proof> {
    using _turn = await this.#turns.acquire(key);
    const stored = memberId === undefined ? null : (this.#accounts.passwordHash(memberId) ?? null);
    const digest = createHmac('sha256', this.#digestKey)
      .update(`${stored}\n${password}`)
      .digest('base64url');
    // Only while tries are left, or whoever has used them up could go on guessing here for nothing.
    const shares = stored !== null && this.#right.get(key) === digest && this.#tries.left(key) > 0;
    if (shares) return { kind: 'RIGHT' };
    const taken = await this.#take(key, placeOf(address), beyondCap);
    if ('refused' in taken) return taken.refused;
    const { left, retryInMs, giveBack } = taken;
    try {
      const { right, outdated } = await checkPassword(password, stored);
      if (!right || stored === null || memberId === undefined) {
        const retryAt = left > 0 ? null : this.#in(retryInMs);
        return { kind: 'WRONG', left, retryAt, tried: true };
      }
      if (outdated) await this.#rehash(memberId, stored, password);
    } catch (error) {
      giveBack();
      if (!(error instanceof PasswordsBusyError)) throw error;
      return { kind: 'BUSY', left: left + 1, retryAt: this.#in(5_000) };
    }
    giveBack();
    this.#right.set(key, digest);
    this.#clock.after(shareMs, () => {
      if (this.#right.get(key) === digest) this.#right.delete(key);
    });
    return { kind: 'RIGHT' };
  }

  /** One try of each that counts, or of none. */
  async #take(
    key: string,
    place: string,
    beyondCap: () => Promise<boolean>,
  ): Promise<
    | { readonly refused: Proof }
    | { readonly left: number; readonly retryInMs: number; readonly giveBack: () => void }
  > {
    const taken: (() => void)[] = [];
    const giveBack = () => {
      for (const one of taken) one();
    };
    const ofAll = this.#triesOfAll.take('');
    if (ofAll.allowed) taken.push(() => this.#triesOfAll.giveBack(''));
    else if (!(await beyondCap())) return { refused: this.#refused(ofAll.retryInMs) };
    const ofPlace = this.#triesOfPlace.take(place);
    if (ofPlace.allowed) {
      taken.push(() => this.#triesOfPlace.giveBack(place));
      const own = this.#tries.take(key);
      if (own.allowed) {
        taken.push(() => this.#tries.giveBack(key));
        return { left: own.left, retryInMs: own.retryInMs, giveBack };
      }
      giveBack();
      return { refused: this.#refused(own.retryInMs) };
    }
    giveBack();
    return { refused: this.#refused(ofPlace.retryInMs) };
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
    return { kind: 'WRONG', left: 0, retryAt: this.#in(retryInMs), tried: false };
  }

  #in(ms: number): Date {
    return new Date(this.#clock.now() + ms);
  }
}
