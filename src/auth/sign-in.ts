import type { AccountStore } from './account-store.ts';
import type { PasswordProof } from './password-proof.ts';
import { ReauthenticationRequiredError } from './reauthentication.ts';
import type { NewSession, Sessions } from './sessions.ts';

/**
 * Signs in by login and password. Unknown, disabled and without a password look and last like a
 * wrong password. Tries are counted by account and address together.
 * @throws ReauthenticationRequiredError
 */
export async function signIn(
  parts: {
    readonly accounts: Pick<AccountStore, 'memberByLogin'>;
    readonly proof: PasswordProof;
    readonly sessions: Pick<Sessions, 'begin'>;
  },
  login: string,
  password: string,
  address: string | null,
): Promise<NewSession> {
  const member = parts.accounts.memberByLogin(login);
  const id = member?.disabled === false ? member.id : undefined;
  const key = `login ${login.slice(0, 64)} from ${address ?? 'unknown'}`;
  const proof = await parts.proof.prove(key, id, password, address);
  if (proof.kind === 'RIGHT' && id !== undefined) return parts.sessions.begin(id);
  const { left, retryAt } = proof.kind === 'RIGHT' ? { left: 0, retryAt: null } : proof;
  throw new ReauthenticationRequiredError(
    left > 0
      ? 'Login or password is wrong, or too much is asked at the moment.'
      : 'No tries are left for now. Wait until `retryAt`.',
    left,
    retryAt,
  );
}
