import { randomUUID } from 'node:crypto';
import { and, asc, eq, isNull } from 'drizzle-orm';
import type { Database } from '../database/database.ts';
import { members as table } from '../database/tables.ts';
import { codeOf } from '../database/unavailable.ts';
import { endSessions } from './end-sessions.ts';
import { checkedLogin, checkedOsUser } from './login.ts';
import type { Member, Role } from './member.ts';

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
}

/**
 * The members as the database has them. Writing is announced by triggers, so that every process
 * knows within moments; `Accounts` is what reads are answered from.
 */
export class Members {
  readonly #database: Pick<Database, 'drizzle'>;

  constructor(database: Pick<Database, 'drizzle'>) {
    this.#database = database;
  }

  /** @throws InvalidMemberError @throws MemberExistsError */
  async add({ login, role, osUser }: NewMember): Promise<Member> {
    const row = {
      id: randomUUID(),
      login: checkedLogin(login),
      role,
      osUser: osUser === null ? null : checkedOsUser(osUser),
    };
    try {
      const [added] = await this.#database.drizzle.insert(table).values(row).returning(columns);
      if (added === undefined) throw new Error('an insert gave no row');
      return added;
    } catch (error) {
      throw existing(error, row) ?? error;
    }
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
    await this.#change(id, { passwordHash });
  }

  /** The same password, hashed by today's rules: nothing ends. */
  async rehash(id: string, from: string, to: string): Promise<void> {
    await this.#database.drizzle
      .update(table)
      .set({ passwordHash: to })
      .where(and(eq(table.id, id), eq(table.passwordHash, from)));
  }

  /** A disabled member is signed out everywhere and its keys don't count. */
  async disable(id: string): Promise<void> {
    await this.#change(id, { disabled: true });
  }

  async enable(id: string): Promise<void> {
    await this.#database.drizzle.update(table).set({ disabled: false }).where(eq(table.id, id));
  }

  /** Ends the member's sessions: a new role is entered by a new sign-in. */
  async setRole(id: string, role: Role): Promise<void> {
    await this.#change(id, { role });
  }

  async #change(
    id: string,
    change: { passwordHash: string | null } | { disabled: true } | { role: Role },
  ): Promise<void> {
    await this.#database.drizzle.transaction(async (transaction) => {
      await transaction.update(table).set(change).where(eq(table.id, id));
      await endSessions(transaction, id, new Date());
    });
  }
}

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
