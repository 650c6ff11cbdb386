import type { Member } from '../members/member.ts';
import type { AccountRows, SessionRow } from './account-rows.ts';
import type { ApiKey } from './accounts.ts';
import type { KeyProof } from './api-keys.ts';

/** One moment of the accounts, found by whatever a request names. */
export interface AccountCopy {
  readonly sorted: readonly Member[];
  readonly members: ReadonlyMap<string, Member>;
  readonly passwordHashes: ReadonlyMap<string, string | null>;
  readonly apiKeys: readonly (ApiKey & KeyProof)[];
  readonly keysById: ReadonlyMap<string, ApiKey & KeyProof>;
  readonly keysByPublicId: ReadonlyMap<string, ApiKey & KeyProof>;
  readonly sessionsById: ReadonlyMap<string, SessionRow>;
  readonly sessionsByHash: ReadonlyMap<string, SessionRow>;
  /** Equal when nothing that matters differs: when a credential was last used does not. */
  readonly fingerprint: string;
}

/** @param before members that are the same as there stay the same objects, as what was made of them then holds */
export function copyOf(rows: AccountRows, before?: AccountCopy): AccountCopy {
  const by = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0);
  const members = [...rows.members].sort((one, other) => by(one.login, other.login));
  const apiKeys = [...rows.apiKeys].sort((one, other) => by(one.id, other.id));
  const sessions = [...rows.sessions].sort((one, other) => by(one.id, other.id));
  const read = members.map(({ passwordHash: _, ...member }) => member);
  const sorted =
    before !== undefined && JSON.stringify(read) === JSON.stringify(before.sorted)
      ? before.sorted
      : read;
  return {
    sorted,
    members: new Map(sorted.map((member) => [member.id, member])),
    passwordHashes: new Map(members.map(({ id, passwordHash }) => [id, passwordHash])),
    apiKeys,
    keysById: new Map(apiKeys.map((key) => [key.id, key])),
    keysByPublicId: new Map(apiKeys.map((key) => [key.publicId, key])),
    sessionsById: new Map(sessions.map((session) => [session.id, session])),
    sessionsByHash: new Map(sessions.map((row) => [row.tokenHash.toString('hex'), row])),
    fingerprint: JSON.stringify([
      members,
      apiKeys.map(({ lastUsedAt: _, ...key }) => key),
      sessions.map(({ lastSeenAt: _, ...session }) => session),
    ]),
  };
}
