import { type Clock, systemClock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import type { Database, Log } from '../database/database.ts';
import { Members } from '../members/members.ts';
import { type AccountChanges, accountChanges, reloaded } from './account-changes.ts';
import type { AccountStore } from './account-store.ts';
import { Grants } from './grants.ts';
import { PasswordProof } from './password-proof.ts';
import { PasswordReauthentication } from './password-reauthentication.ts';
import type { Reauthentication } from './reauthentication.ts';
import { type NewSession, Sessions } from './sessions.ts';
import { SignIn, type SignInEnd } from './sign-in.ts';
import type { Authenticated } from './viewer.ts';

/** The ways in, put together. */
export interface Authentication {
  /** The viewer of an API key (`mw_…`); undefined for every kind of refusal. */
  apiKey(key: string): Authenticated;
  /** The viewer of a session's cookie. */
  session(token: string): Authenticated;
  readonly signing: Signing;
  readonly reauthentication: Reauthentication;
  readonly changes: AccountChanges;
  readonly sessions: Sessions;
}

/** How sessions begin and end. */
export interface Signing {
  signIn(login: string, password: string, address: string | null): Promise<SignInEnd>;
  /** Undefined for a link that is used, expired or unknown. */
  redeemLink(token: string, address: string | null): Promise<NewSession | undefined>;
  /** One session; nobody is let in by it from now on. */
  end(sessionId: string): Promise<void>;
  /** All sessions of the member, and what else of its sign-ins could be used. */
  endAll(memberId: string): Promise<void>;
}

export function openAuthentication(
  database: Database,
  accounts: AccountStore,
  config: Pick<Config, 'stateDir'>,
  clock: Clock = systemClock,
  log?: Log,
): Authentication {
  const members = new Members(database);
  const sessions = new Sessions(database, clock);
  // Counted apart: what strangers try at the door pushes nobody's count out of memory inside.
  const atTheDoor = new PasswordProof(accounts, members, clock, log);
  const inside = new PasswordProof(accounts, members, clock, log);
  const door = new SignIn(accounts, atTheDoor, sessions, clock);
  const grants = new Grants(database, clock, log);
  return {
    apiKey: (key) => accounts.authenticateKey(key),
    session: (token) => accounts.authenticateSession(token),
    signing: {
      signIn: (login, password, address) => door.signIn(login, password, address),
      redeemLink: (token, address) => sessions.redeemLink(token, address),
      async end(sessionId) {
        await sessions.end(sessionId);
        await reloaded(accounts, log);
      },
      async endAll(memberId) {
        await sessions.endAll(memberId);
        await reloaded(accounts, log);
      },
    },
    reauthentication: new PasswordReauthentication(accounts, inside, grants, config.stateDir),
    changes: accountChanges(database, accounts, log),
    sessions,
  };
}
