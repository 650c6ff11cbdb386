import { type Clock, systemClock } from '../concurrency/clock.ts';
import type { AccountStore } from './account-store.ts';
import { Attempts } from './attempts.ts';
import { type PasswordProof, windowMs } from './password-proof.ts';
import { placeOf } from './place.ts';
import { ReauthenticationRequiredError } from './reauthentication.ts';
import type { NewSession, Sessions } from './sessions.ts';
import type { Viewer } from './viewer.ts';

/**
 * Sign-in by login and password. Unknown, disabled and without a password look and last like a wrong
 * password. Tries are counted by account and place together; once everybody's are used up, a place
 * that the account was signed in from before goes on, so that no outsider locks anybody out.
 */
export type SignInEnd =
  | { readonly kind: 'IN'; readonly session: NewSession; readonly viewer: Viewer }
  | {
      readonly kind: 'REFUSED';
      readonly error: ReauthenticationRequiredError;
      /** The account of that login, for the record; undefined: there is none. */
      readonly memberId: string | undefined;
      /** False for one of many refusals that say the same: whoever has no tries left can ask on and on. */
      readonly forTheRecord: boolean;
    };

type KnownAccounts = Pick<
  AccountStore,
  'memberByLogin' | 'passwordHash' | 'reload' | 'authenticateSession'
>;

export class SignIn {
  readonly #accounts: KnownAccounts;
  readonly #proof: PasswordProof;
  readonly #sessions: Pick<Sessions, 'begin' | 'knows'>;
  /** Refusals without a try that went on record: of one place, and of all. */
  readonly #toldOfPlace: Attempts;
  readonly #told: Attempts;

  constructor(
    accounts: KnownAccounts,
    proof: PasswordProof,
    sessions: Pick<Sessions, 'begin' | 'knows'>,
    clock: Pick<Clock, 'monotonic'> = systemClock,
  ) {
    this.#accounts = accounts;
    this.#proof = proof;
    this.#sessions = sessions;
    this.#toldOfPlace = new Attempts(1, windowMs, clock);
    this.#told = new Attempts(100, windowMs, clock);
  }

  async signIn(login: string, password: string, address: string | null): Promise<SignInEnd> {
    const member = this.#accounts.memberByLogin(login);
    const id = member?.disabled === false ? member.id : undefined;
    const place = placeOf(address);
    const proof = await this.#proof.prove(
      `login ${login.slice(0, 64)} from ${place}`,
      id,
      password,
      address,
      () => this.#sessions.knows(login, address),
    );
    if (proof.kind === 'RIGHT' && id !== undefined) {
      const session = await this.#sessions.begin(id, address);
      await this.#accounts.reload();
      const viewer = await this.#accounts.authenticateSession(session.token);
      if (viewer !== undefined) return { kind: 'IN', session, viewer };
    }
    const { left, retryAt } = proof.kind === 'RIGHT' ? { left: 5, retryAt: null } : proof;
    const message =
      left > 0
        ? 'Login or password is wrong, or too much is asked at the moment.'
        : 'No tries are left for now. Wait until `retryAt`, or use a link of `muxwarden login`.';
    return {
      kind: 'REFUSED',
      error: new ReauthenticationRequiredError(message, left, retryAt),
      memberId: member?.id,
      forTheRecord:
        (proof.kind === 'WRONG' && proof.tried) ||
        (this.#toldOfPlace.take(place).allowed && this.#told.take('').allowed),
    };
  }
}
