import { type Clock, systemClock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import type { Database, Log } from '../database/database.ts';
import { Members } from '../members/members.ts';
import type { AccountStore } from './account-store.ts';
import { PasswordProof } from './password-proof.ts';
import { PasswordReauthentication } from './password-reauthentication.ts';
import type { Reauthentication } from './reauthentication.ts';
import { type NewSession, Sessions } from './sessions.ts';
import { signIn } from './sign-in.ts';
import type { Viewer } from './viewer.ts';

/** The ways in, put together. */
export interface Authentication {
  /** The viewer of an API key (`mw_…`); undefined for every kind of refusal. */
  apiKey(key: string): Promise<Viewer | undefined>;
  /** The viewer of a session's cookie. */
  session(token: string): Promise<Viewer | undefined>;
  /** Undefined for a link that is used, expired or unknown. */
  redeemSignInLink(token: string): Promise<NewSession | undefined>;
  readonly reauthentication: Reauthentication;
  readonly sessions: Sessions;
  /** @throws ReauthenticationRequiredError */
  signIn(login: string, password: string, address: string | null): Promise<NewSession>;
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
  return {
    apiKey: (key) => accounts.authenticateKey(key),
    session: (token) => accounts.authenticateSession(token),
    redeemSignInLink: (token) => sessions.redeemLink(token),
    reauthentication: new PasswordReauthentication(accounts, inside, config.stateDir),
    sessions,
    signIn: (login, password, address) =>
      signIn({ accounts, proof: atTheDoor, sessions }, login, password, address),
  };
}
