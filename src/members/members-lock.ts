import { and, eq, isNull, ne, sql } from 'drizzle-orm';
import type { Database } from '../database/database.ts';
import { members as table } from '../database/tables.ts';

/** It would leave nobody who can let anybody in again. */
export class LastAdminError extends Error {
  override readonly name = 'LastAdminError';
  constructor(login: string) {
    super(
      `'${login}' is the last ADMIN that is enabled. Make another member ADMIN first, or nobody could change members any more.`,
    );
  }
}

type Writer = Parameters<Parameters<Database['drizzle']['transaction']>[0]>[0];

/** Changes of members, by whichever process, one after the other until the transaction ends. */
export async function lockMembers(writer: Writer): Promise<void> {
  await writer.execute(sql`select pg_advisory_xact_lock(hashtext('muxwarden members'))`);
}

/** For a member that is about to be no enabled ADMIN any more. @throws LastAdminError */
export async function keepAnAdmin(
  writer: Writer,
  { id, login }: { readonly id: string; readonly login: string },
): Promise<void> {
  const others = await writer
    .select({ id: table.id })
    .from(table)
    .where(
      and(
        eq(table.role, 'ADMIN'),
        eq(table.disabled, false),
        isNull(table.deletedAt),
        ne(table.id, id),
      ),
    )
    .limit(1);
  if (others.length === 0) throw new LastAdminError(login);
}
