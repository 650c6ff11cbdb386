import { randomUUID } from 'node:crypto';
import { and, asc, eq, isNull } from 'drizzle-orm';
import type { Database } from '../database/database.ts';
import { apiKeys, members as table } from '../database/tables.ts';
import { codeOf } from '../database/unavailable.ts';
import { endSessions } from './end-sessions.ts';
import { checkedLogin, checkedOsUser } from './login.ts';
import type { Member, Role } from './member.ts';
import { keepAnAdmin, lockMembers } from './members-lock.ts';

/** Another member has that login, or that Linux user; `field` says which. */
export class MemberExistsError extends Error {
  override readonly name = 'MemberExistsError';
  readonly field: 'login' | 'osUser';
  constructor(field: 'login' | 'osUser', value: string) {
    super(
      field === 'login'
        ? `There is a member '${value}' already.`
        : `The Linux user '${value}' belongs to another member already.`,
    );
    this.field = field;
  }
}

export class MemberNotFoundError extends Error {
  override readonly name = 'MemberNotFoundError';
  constructor(login: string) {
    super(`There is no member '${login}'. \`muxwarden members list\` shows them.`);
  }
}

export interface NewMember {
  readonly login: string;
  readonly role: Role;
  readonly osUser: string | null;
  /** `hashPassword` makes it; null: no password. */
  readonly passwordHash?: string | null;
}

/** What may be changed about a member; what is left out stays. */
export interface MemberChange {
  readonly role?: Role | undefined;
  readonly disabled?: boolean | undefined;
  readonly osUser?: string | null | undefined;
}

/**
 * The members as the database has them. Writing is announced by triggers, so that every process
 * knows within moments; `Accounts` is what reads are answered from. Always one ADMIN is enabled.
 */
export class Members {
  readonly #database: Pick<Database, 'drizzle'>;

  constructor(database: Pick<Database, 'drizzle'>) {
    this.#database = database;
  }

  /** @throws InvalidMemberError @throws MemberExistsError */
  async add(
    { login, role, osUser, passwordHash = null }: NewMember,
    id: string = randomUUID(),
  ): Promise<Member> {
    const row = {
      id,
      login: checkedLogin(login),
      role,
      osUser: osUser === null ? null : checkedOsUser(osUser),
      passwordHash,
    };
    const [added] = await this.#database.drizzle
      .insert(table)
      .values(row)
      .returning(columns)
      .catch((error: unknown) => {
        throw existing(error, row) ?? error;
      });
    if (added === undefined) throw new Error('an insert gave no row');
    return added;
  }

  /** Sorted by login; disabled ones included, deleted ones not. */
  list(): Promise<Member[]> {
    return this.#database.drizzle
      .select(columns)
      .from(table)
      .where(isNull(table.deletedAt))
      .orderBy(asc(table.login));
  }

  /** @throws MemberNotFoundError */
  async byLogin(login: string): Promise<Member> {
    const [found] = await this.#database.drizzle
      .select(columns)
      .from(table)
      .where(and(eq(table.login, login), isNull(table.deletedAt)));
    if (found === undefined) throw new MemberNotFoundError(login);
    return found;
  }

  /** Ends the member's sessions, for who knew the old password; null: no password from now on. */
  async setPassword(id: string, passwordHash: string | null): Promise<void> {
    await this.#database.drizzle.transaction(async (transaction) => {
      await transaction.update(table).set({ passwordHash }).where(eq(table.id, id));
      await endSessions(transaction, id, new Date());
    });
  }

  /** The same password, hashed by today's rules: nothing ends. */
  async rehash(id: string, from: string, to: string): Promise<void> {
    await this.#database.drizzle
      .update(table)
      .set({ passwordHash: to })
      .where(and(eq(table.id, id), eq(table.passwordHash, from)));
  }

  /**
   * A disabled member is signed out everywhere and its keys don't count. A new role is entered by a
   * new sign-in, too; keys go on within it.
   * @throws MemberNotFoundError, MemberExistsError, InvalidMemberError, LastAdminError
   */
  async change(id: string, { role, disabled, osUser }: MemberChange): Promise<Member> {
    const wanted = { role, disabled, osUser: osUser == null ? osUser : checkedOsUser(osUser) };
    const change = Object.fromEntries(
      Object.entries(wanted).filter(([, value]) => value !== undefined),
    );
    return await this.#locked(id, async (transaction, before) => {
      const after = { ...before, ...change };
      if (!isActiveAdmin(after) && isActiveAdmin(before)) await keepAnAdmin(transaction, before);
      if (Object.keys(change).length > 0)
        await transaction
          .update(table)
          .set(change)
          .where(eq(table.id, id))
          .catch((error: unknown) => {
            throw existing(error, after) ?? error;
          });
      const isOut = after.role !== before.role || (after.disabled && !before.disabled);
      if (isOut) await endSessions(transaction, id, new Date());
      return after;
    });
  }

  /**
   * Signs the member out and revokes its keys, for good. The record goes on naming it; its login and
   * its Linux user are free again, and its tmux servers are not touched.
   * @throws MemberNotFoundError, LastAdminError
   */
  async delete(id: string, at: Date = new Date()): Promise<Member> {
    return await this.#locked(id, async (transaction, before) => {
      if (isActiveAdmin(before)) await keepAnAdmin(transaction, before);
      await transaction
        .update(table)
        .set({ deletedAt: at, passwordHash: null })
        .where(eq(table.id, id));
      await transaction
        .update(apiKeys)
        .set({ revokedAt: at })
        .where(and(eq(apiKeys.memberId, id), isNull(apiKeys.revokedAt)));
      await endSessions(transaction, id, at);
      return before;
    });
  }

  #locked<Result>(
    id: string,
    work: (transaction: Transaction, before: Member) => Promise<Result>,
  ): Promise<Result> {
    return this.#database.drizzle.transaction(async (transaction) => {
      await lockMembers(transaction);
      const [before] = await transaction
        .select(columns)
        .from(table)
        .where(and(eq(table.id, id), isNull(table.deletedAt)));
      if (before === undefined) throw new MemberNotFoundError(id);
      return await work(transaction, before);
    });
  }
}

type Transaction = Parameters<typeof lockMembers>[0];

const isActiveAdmin = ({ role, disabled }: Pick<Member, 'role' | 'disabled'>) =>
  role === 'ADMIN' && !disabled;

const columns = {
  id: table.id,
  login: table.login,
  role: table.role,
  osUser: table.osUser,
  disabled: table.disabled,
  createdAt: table.createdAt,
} as const;

function existing(
  error: unknown,
  row: { readonly login: string; readonly osUser: string | null },
): MemberExistsError | undefined {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  if (codeOf(cause) !== '23505') return undefined;
  return cause instanceof Error && 'constraint' in cause && cause.constraint === 'members_os_user'
    ? new MemberExistsError('osUser', row.osUser ?? '')
    : new MemberExistsError('login', row.login);
}
