import type { Audit } from '../audit/audit.ts';
import { sleep } from '../concurrency/clock.ts';
import type { Database } from '../database/database.ts';

/** Whoever asks waits no longer than that for an answer, with reasons. */
const patienceMs = 900;

/** Why the service can't do its work now; empty: it can. */
export async function whyNotReady(
  { pool }: Pick<Database, 'pool'>,
  audit: Pick<Audit, 'problems'>,
): Promise<readonly string[]> {
  const answering = pool.query('select 1').then(
    () => true,
    () => false,
  );
  const answers = await Promise.race([answering, sleep(patienceMs).then(() => false)]);
  return [
    ...(answers ? [] : ['the database does not answer']),
    ...(audit.problems().some(({ code }) => code === 'AUDIT_UNAVAILABLE')
      ? ['acts can not be put on record']
      : []),
  ];
}
