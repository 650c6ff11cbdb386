import { lstat, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { StateDirectoryError } from '../database/state-directory.ts';
import { ifThere, isSystemError } from '../system-error.ts';
import { readHeads as readChainHeads } from './audit-table.ts';
import { type ChainKeys, existingChainKeys, existingInstanceId } from './chain-key.ts';
import { commandsDirectory } from './command-audit.ts';
import { type ChainHead, headLine, readHeads } from './head.ts';
import { journalLine, type SealedRow } from './row.ts';
import { exportRows, journalRows, rowsAmong, settledSize, tableRows } from './sources.ts';
import { compare, type Finding, type Source, type Verification, verify } from './verify.ts';

/**
 * The record looked at from outside, beside a service that runs or without one; nothing is changed.
 * What such a service writes meanwhile is no finding: of the table, what was there at the beginning
 * has to be in the journal, and what the journal had at the beginning gets a moment to arrive.
 */
type Queries = Pick<NodePgDatabase, 'select' | 'insert' | 'execute'>;

/** What a directory holds of its chain. */
export interface ChainFiles {
  readonly writer: 'service' | 'commands';
  readonly directory: string;
  readonly chain: string;
  readonly keys: ChainKeys;
  readonly journal: string;
}

/** @throws AuditKeyError where no service has run with this state directory */
export async function chainFiles(stateDir: string): Promise<readonly ChainFiles[]> {
  const commands = commandsDirectory(stateDir);
  const hasCommands = await ifThere(lstat(join(commands, 'audit')));
  return await Promise.all([
    filesIn(stateDir, 'service'),
    ...(hasCommands ? [filesIn(commands, 'commands')] : []),
  ]);
}

async function filesIn(directory: string, writer: ChainFiles['writer']): Promise<ChainFiles> {
  const chain = await existingInstanceId(directory);
  const keys = await existingChainKeys(directory);
  return { writer, directory, chain, keys, journal: join(directory, 'audit/journal.jsonl') };
}

export interface Place extends Verification {
  readonly place: 'journal' | 'table' | 'journal and table';
}

/** @param given heads that were noted elsewhere, as in the log of the service */
export async function inspect(
  { chain, keys, directory, journal }: ChainFiles,
  queries: Queries | undefined,
  given: readonly ChainHead[] = [],
): Promise<readonly Place[]> {
  const tableBefore = queries && (await endOf(queries, chain));
  const { heads: noted, damaged } = await readHeads(directory, keys);
  const heads = [...noted, ...given].filter((head) => head.chain === chain);
  const size = await sizeOf(journal);
  const options = { chains: new Set([chain]) };
  const rows = () => (size === 0 ? empty() : journalRows(journal, size));
  const written = await verify(rows(), keys, heads, options);
  const places: Place[] = [
    {
      place: 'journal',
      ...written,
      findings: [...headFindings(chain, damaged), ...written.findings],
    },
  ];
  if (queries === undefined || tableBefore === undefined) return places;
  const journalEnd = await lastOf(rows());
  await arrival(queries, chain, journalEnd);
  const to = Math.max(tableBefore, journalEnd);
  const stored = await verify(tableRows(queries, chain, to), keys, heads, options);
  const findings = await compare(rowsAmong(rows()), tableRows(queries, chain, to));
  return [
    ...places,
    { place: 'table', ...stored },
    { place: 'journal and table', rows: stored.rows, findings },
  ];
}

/** Chains of the table that other state directories wrote, with their last numbers. */
export async function otherChains(
  queries: Queries,
  own: readonly ChainFiles[],
): Promise<ReadonlyMap<string, number>> {
  const all = new Map(await readChainHeads(queries));
  for (const { chain } of own) all.delete(chain);
  return all;
}

/** A file that `writeExport` made, or a copy of a journal for which heads are given. */
export async function inspectFile(
  path: string,
  keys: ChainKeys,
  given: readonly ChainHead[] = [],
): Promise<Verification> {
  const found = await verify(exportRows(path, keys), keys, given, { endsAtHead: true });
  if (found.rows > 0 || found.findings.length > 0) return found;
  const empty = { kind: 'CUT', chain: null, sequence: 1, detail: 'it has no row at all' } as const;
  return { ...found, findings: [empty] };
}

/**
 * Writes the chain, line by line: the heads that were noted, every row as it is in that place, and a
 * head that says which row is the last. What is wrong with them is in the result, never left out.
 */
export async function writeExport(
  { chain, keys, directory, journal }: ChainFiles,
  queries: Queries | undefined,
  out: (line: string) => void,
): Promise<Verification> {
  const { heads: noted, damaged } = await readHeads(directory, keys);
  const heads = noted.filter((head) => head.chain === chain);
  for (const head of heads) out(headLine(keys, head));
  let last: SealedRow | undefined;
  const rows =
    queries === undefined
      ? journalRows(journal, await sizeOf(journal), out)
      : lined(tableRows(queries, chain), out);
  const found = await verify(
    noticing(rows, (row) => {
      last = row;
    }),
    keys,
    heads,
    { chains: new Set([chain]) },
  );
  if (last !== undefined) {
    const { sequence, hash, at } = last;
    out(headLine(keys, { chain, sequence, hash, at }));
  }
  return { ...found, findings: [...headFindings(chain, damaged), ...found.findings] };
}

async function* lined(rows: AsyncIterable<SealedRow>, out: (line: string) => void): Source {
  for await (const row of rows) {
    out(journalLine(row));
    yield row;
  }
}

async function* noticing(source: Source, notice: (row: SealedRow) => void): Source {
  for await (const item of source) {
    if (!('head' in item) && !('bad' in item)) notice(item);
    yield item;
  }
}

function headFindings(chain: string, damaged: readonly string[]): readonly Finding[] {
  return damaged.map((path) => {
    const detail = `${path} is not as the service wrote it`;
    return { kind: 'HEAD_CHANGED', chain, sequence: null, detail };
  });
}

/** A journal that is gone is one without rows: what it should have is for the heads to say. */
async function sizeOf(journal: string): Promise<number> {
  const there = await stat(journal).catch((error: unknown) => {
    if (isSystemError(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  });
  if (there === undefined) return 0;
  if (!there.isFile())
    throw new StateDirectoryError(
      `${journal} is no regular file. Move it aside, and put the journal back from a backup if there is one.`,
    );
  return await settledSize(journal);
}

async function* empty(): Source {}

async function endOf(queries: Queries, chain: string): Promise<number> {
  return (await readChainHeads(queries)).get(chain) ?? 0;
}

async function lastOf(source: Source): Promise<number> {
  let last = 0;
  for await (const { sequence } of rowsAmong(source)) last = Math.max(last, sequence);
  return last;
}

/** Rows of the journal are on their way into the table for some milliseconds. */
async function arrival(queries: Queries, chain: string, sequence: number): Promise<void> {
  const end = performance.now() + 3_000;
  while ((await endOf(queries, chain)) < sequence && performance.now() < end) await sleep(100);
}
