import { and, eq, isNull } from 'drizzle-orm';
import type { Database } from '../database/database.ts';
import { grants, sessions, signInLinks } from '../database/tables.ts';

/** Signs a member out everywhere: sessions end; links and grants that were not used yet are gone. */
export async function endSessions(
  writer: Pick<Database['drizzle'], 'update' | 'delete'>,
  memberId: string,
  at: Date,
): Promise<void> {
  await writer
    .update(sessions)
    .set({ endedAt: at })
    .where(and(eq(sessions.memberId, memberId), isNull(sessions.endedAt)));
  await writer
    .delete(signInLinks)
    .where(and(eq(signInLinks.memberId, memberId), isNull(signInLinks.usedAt)));
  await writer.delete(grants).where(eq(grants.memberId, memberId));
}
