import { join } from 'node:path';
import type { Database, Log } from '../database/database.ts';
import type { Audit } from './audit.ts';
import { openAudit } from './open-audit.ts';

/**
 * Commands that have to be on record write a chain of their own, for the service's has one writer
 * and that is the service. It is kept in `<state dir>/commands` as the service keeps its own, with a
 * name and a key, and its rows are in the same table. Commands take turns.
 */
export const commandsDirectory = (stateDir: string) => join(stateDir, 'commands');

/** @throws AuditKeyError, ChainTakenError, DatabaseUnavailableError */
export async function openCommandAudit(
  stateDir: string,
  database: Database,
  log: Log,
): Promise<Audit> {
  return await openAudit(commandsDirectory(stateDir), database, log, { reserveBytes: 64 << 10 });
}
