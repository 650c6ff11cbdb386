import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '../concurrency/clock.ts';
import type { Database, Log } from '../database/database.ts';
import { ifThere } from '../system-error.ts';
import type { Audit } from './audit.ts';
import { lastRow, rowsOfChain } from './audit-table.ts';
import { ChainAudit } from './chain-audit.ts';
import {
  type ChainKeys,
  existingChainKeys,
  genesis,
  readChainKeys,
  readInstanceId,
  sameHash,
} from './chain-key.ts';
import { keepHead, readHeads } from './head.ts';
import { Journal, type JournalOptions } from './journal.ts';
import { canonicalText, type SealedRow } from './row.ts';
import type { Head } from './sealing.ts';
import { TableWriter } from './table-writer.ts';
import { readBootId } from './writer.ts';

export interface OpenAuditOptions extends JournalOptions {
  readonly clock?: Clock;
  /** What "on record in time" means; callers are answered within 2 s. */
  readonly withinMs?: number;
  /** How often the feed looks without being told to. */
  readonly pollMs?: number;
}

/**
 * Opens the record of this state directory (which its caller has locked): finds where its chain
 * ended, puts into the table what only the journal has, and raises an alarm about everything that
 * should not be. It opens also when nothing can be written: then acts are refused, and reads go on.
 *
 * @throws AuditKeyError, DatabaseUnavailableError; ChainTakenError while another process writes it
 */
export async function openAudit(
  stateDir: string,
  database: Database,
  log: Log,
  options: OpenAuditOptions = {},
): Promise<Audit> {
  const [chain, bootId] = await Promise.all([readInstanceId(stateDir), readBootId()]);
  const clock = options.clock ?? systemClock;
  const withinMs = options.withinMs ?? 1_800;
  await using parts = new AsyncDisposableStack();
  const table = parts.use(new TableWriter(database, chain, withinMs, clock));
  await table.takeChain();
  const stored = await lastRow(database.drizzle, chain);
  table.startFrom(stored?.sequence ?? 0);
  const hasRows = stored !== undefined || (await hasJournal(stateDir));
  const keys = await (hasRows ? existingChainKeys(stateDir) : readChainKeys(stateDir));
  const journal = parts.use(await Journal.open(stateDir, options));
  const found = await findEnd(journal, chain, keys, stored);
  const audit = new ChainAudit({
    ...{ stateDir, chain, keys, bootId, journal, table, database, log, clock, withinMs },
    head: found.head,
    pollMs: options.pollMs ?? 3_000,
  });
  for (const finding of journal.findings) log.warn({}, `audit journal: ${finding}`);
  for (const message of found.alarms) audit.alarm({ code: 'AUDIT_CHAIN', message, remedy });
  for (const message of await contradictedHeads(stateDir, chain, keys, found, database))
    audit.alarm({ code: 'AUDIT_CUT', message, remedy });
  if (found.damage !== undefined) audit.refuse(new Error(found.damage));
  await audit.begin(found.missing);
  parts.move();
  return audit;
}

/** Rows that a key has sealed: were it gone, another one would seal what follows, and nobody chose that. */
async function hasJournal(stateDir: string): Promise<boolean> {
  const status = await ifThere(stat(join(stateDir, 'audit/journal.jsonl')));
  return status !== undefined && status.size > 0;
}

const remedy =
  "Keep copies of the journal and the database, then compare both with the heads in the service's log ('audit head').";

interface End {
  readonly head: Head;
  /** In the journal, not in the table. */
  readonly missing: readonly SealedRow[];
  readonly alarms: readonly string[];
  /** Set where no row can be added to what is there. */
  readonly damage?: string;
}

async function findEnd(
  journal: Journal,
  chain: string,
  keys: ChainKeys,
  stored: SealedRow | undefined,
): Promise<End> {
  const alarms: string[] = [];
  const start: Head = stored
    ? { sequence: stored.sequence, hash: stored.hash }
    : { sequence: 0, hash: genesis };
  let last: SealedRow | undefined;
  let tail: readonly SealedRow[];
  try {
    tail = await journal.tail((row) => {
      if (row.sequence > start.sequence) return false;
      last = row;
      return true;
    });
  } catch (error) {
    const damage = error instanceof Error ? error.message : String(error);
    return { head: start, missing: [], alarms: [damage], damage };
  }
  // Where the table is ahead, its rows are true if they are sealed; the journal has lost some.
  if (last === undefined ? tail.length === 0 && start.sequence > 0 : last.sequence < start.sequence)
    alarms.push(
      `The audit journal ends before row ${start.sequence}, which the table has: a part of the journal is gone.`,
    );
  for (const [row, place] of [[stored, 'table'] as const, [last, 'journal'] as const]) {
    const wrong = row && wrongSeal(keys, row, place);
    if (wrong !== undefined) alarms.push(wrong);
  }
  if (last?.sequence === start.sequence && last.hash !== start.hash) {
    alarms.push(`Row ${start.sequence} differs between the audit journal and the table.`);
    if (isSealed(keys, last)) return tailOf(last, tail, chain, keys, alarms);
  }
  return tailOf(start, tail, chain, keys, alarms);
}

/** The tail, when it continues `start` without a gap and is ours. */
function tailOf(
  start: Head,
  tail: readonly SealedRow[],
  chain: string,
  keys: ChainKeys,
  alarms: readonly string[],
): End {
  let head = start;
  for (const row of tail) {
    const follows = row.sequence === head.sequence + 1 && row.previous === head.hash;
    if (!follows || row.chain !== chain || !isSealed(keys, row)) {
      const damage =
        row.chain === chain
          ? `Row ${row.sequence} of the audit journal does not continue the record: it was changed, or rows before it are gone.`
          : `The audit journal is of chain ${row.chain}, and instance-id says ${chain}. Put the one that was exchanged back from a backup.`;
      return { head: start, missing: [], alarms: [...alarms, damage], damage };
    }
    head = { sequence: row.sequence, hash: row.hash };
  }
  return { head, missing: tail, alarms };
}

async function contradictedHeads(
  stateDir: string,
  chain: string,
  keys: ChainKeys,
  end: End,
  database: Database,
): Promise<readonly string[]> {
  const { heads, damaged } = await readHeads(stateDir, keys);
  const messages = damaged.map((path) => `${path} is not as the service wrote it.`);
  for (const head of heads.filter((each) => each.chain === chain)) {
    const when = head.at.toISOString();
    if (head.sequence > end.head.sequence)
      messages.push(
        `The audit log ends at row ${end.head.sequence}, but had ${head.sequence} rows at ${when}.`,
      );
    else if ((await hashAt(head.sequence, end, chain, database)) !== head.hash)
      messages.push(
        `Row ${head.sequence} of the audit log is not the one that was there at ${when}.`,
      );
  }
  if (messages.length > 0 && heads.length + damaged.length > 0) await keepHead(stateDir);
  return messages;
}

async function hashAt(
  sequence: number,
  end: End,
  chain: string,
  database: Database,
): Promise<string | undefined> {
  if (sequence === end.head.sequence) return end.head.hash;
  const missing = end.missing.find((row) => row.sequence === sequence);
  if (missing) return missing.hash;
  const [row] = await rowsOfChain(
    database.drizzle,
    { chain, after: sequence - 1, to: sequence },
    1,
  );
  return row?.hash;
}

/** The alarm where it is not sealed as it should be. */
function wrongSeal(
  keys: ChainKeys,
  row: SealedRow,
  place: 'journal' | 'table',
): string | undefined {
  const { sequence, keyId } = row;
  if (isSealed(keys, row)) return undefined;
  return keys.mac(keyId, '') === undefined
    ? `Row ${sequence} of the audit ${place} is sealed by key ${JSON.stringify(keyId)}, which is not in audit.key. Put that file back from a backup.`
    : `Row ${sequence} of the audit ${place} is not what was written.`;
}

function isSealed(keys: ChainKeys, row: SealedRow): boolean {
  const mac = keys.mac(row.keyId, canonicalText(row));
  return mac !== undefined && sameHash(mac, row.hash);
}
