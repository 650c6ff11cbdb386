import type { Database, Log } from '../database/database.ts';
import type { Member } from '../members/member.ts';
import { type MemberChange, Members, type NewMember } from '../members/members.ts';
import type { AccountStore } from './account-store.ts';
import { ApiKeys, type MadeApiKey, type NewApiKey } from './api-keys.ts';

/** What changes members and keys. A change is known here when it resolves, elsewhere within moments. */
export interface AccountChanges {
  /** @throws InvalidApiKeyError */
  createKey(wanted: NewApiKey, id: string): Promise<MadeApiKey>;
  /** False: it was revoked before. */
  revokeKey(id: string): Promise<boolean>;
  /** @throws InvalidMemberError, MemberExistsError */
  addMember(wanted: NewMember, id: string): Promise<Member>;
  /** @throws InvalidMemberError, MemberExistsError, MemberNotFoundError, LastAdminError */
  changeMember(id: string, change: MemberChange): Promise<Member>;
  /** @throws MemberNotFoundError, LastAdminError */
  deleteMember(id: string): Promise<Member>;
}

export function accountChanges(
  database: Pick<Database, 'drizzle'>,
  accounts: Pick<AccountStore, 'reload'>,
  log?: Log,
): AccountChanges {
  const keys = new ApiKeys(database);
  const members = new Members(database);
  const known = async <Result>(change: Promise<Result>): Promise<Result> => {
    const result = await change;
    await reloaded(accounts, log);
    return result;
  };
  return {
    createKey: (wanted, id) => known(keys.create(wanted, id)),
    revokeKey: (id) => known(keys.revoke(id)),
    addMember: (wanted, id) => known(members.add(wanted, id)),
    changeMember: (id, change) => known(members.change(id, change)),
    deleteMember: (id) => known(members.delete(id)),
  };
}

/** After a change that is done, whatever comes of reading it: the database announces it as well. */
export async function reloaded(accounts: Pick<AccountStore, 'reload'>, log?: Log): Promise<void> {
  await accounts
    .reload()
    .catch((err: unknown) => log?.warn({ err }, 'accounts could not be read after a change'));
}
