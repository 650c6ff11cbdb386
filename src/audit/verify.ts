import { createReadStream } from 'node:fs';
import { type ChainKeys, genesis, sameHash } from './chain-key.ts';
import type { ChainHead } from './head.ts';
import { parseJournalLine } from './journal-line.ts';
import { canonicalText, type SealedRow } from './row.ts';

/**
 * Whether rows are what the service wrote: each sealed by a key that we have, numbered from 1
 * without a gap, and each naming the hash of the one before. Works on any source of rows, in the
 * order that the source has them, and reports everything that it finds rather than stopping.
 */
export type FindingKind =
  /** The hash is not that of the row. */
  | 'CHANGED'
  /** Sealed by a key that is not in audit.key. */
  | 'UNKNOWN_KEY'
  /** Numbers are missing before this row. */
  | 'MISSING'
  /** The number was there before, or a higher one was. */
  | 'REPEATED'
  /** It does not follow the row before it. */
  | 'UNLINKED'
  /** A line that is no row. */
  | 'DAMAGED'
  /** The last line was cut while it was written; it was never on record. */
  | 'TORN'
  /** A head was noted that lies beyond the end. */
  | 'CUT'
  /** The row at a noted head is another one: an older copy was put in place. */
  | 'REPLACED'
  /** Table and journal differ in this row. */
  | 'DIFFERENT';

export interface Finding {
  readonly kind: FindingKind;
  readonly chain: string | null;
  /** Where it is, or would be. */
  readonly sequence: number | null;
  readonly detail: string;
}

export interface Verification {
  readonly rows: number;
  readonly findings: readonly Finding[];
}

export type Source = AsyncIterable<SealedRow | UnreadableLine>;
export interface UnreadableLine {
  readonly unreadable: 'DAMAGED' | 'TORN';
  readonly line: number;
}

export async function verify(
  source: Source,
  keys: ChainKeys,
  heads: readonly ChainHead[] = [],
): Promise<Verification> {
  const findings: Finding[] = [];
  const last = new Map<string, { sequence: number; hash: string }>();
  const hashAt = new Map(heads.map((head) => [`${head.chain} ${head.sequence}`, '']));
  let rows = 0;
  for await (const row of source) {
    if ('unreadable' in row) {
      const detail = `line ${row.line} is no row`;
      findings.push({ kind: row.unreadable, chain: null, sequence: null, detail });
      continue;
    }
    rows++;
    const { chain, sequence } = row;
    const find = (kind: FindingKind, detail: string) =>
      findings.push({ kind, chain, sequence, detail });
    const mac = keys.mac(row.keyId, canonicalText(row));
    if (mac === undefined) find('UNKNOWN_KEY', `audit.key has no key '${row.keyId}'`);
    else if (!sameHash(mac, row.hash)) find('CHANGED', 'the hash is not that of the row');
    const before = last.get(chain) ?? { sequence: 0, hash: genesis };
    if (sequence <= before.sequence) {
      find('REPEATED', `it comes after row ${before.sequence}`);
      continue;
    }
    if (sequence > before.sequence + 1)
      find('MISSING', `rows ${before.sequence + 1} to ${sequence - 1} are not there`);
    else if (row.previous !== before.hash) find('UNLINKED', 'it names another row before it');
    last.set(chain, { sequence, hash: row.hash });
    const place = `${chain} ${sequence}`;
    if (hashAt.has(place)) hashAt.set(place, row.hash);
  }
  for (const { chain, sequence, hash, at } of heads) {
    const end = last.get(chain)?.sequence ?? 0;
    const find = (kind: FindingKind, detail: string) =>
      findings.push({ kind, chain, sequence: Math.min(sequence, end + 1), detail });
    if (end < sequence)
      find('CUT', `it ends at row ${end}, but had ${sequence} at ${at.toISOString()}`);
    else if (hashAt.get(`${chain} ${sequence}`) !== hash)
      find('REPLACED', `row ${sequence} is not the one that was there at ${at.toISOString()}`);
  }
  return { rows, findings };
}

/** The lines of a journal; a last one without its end is torn, for a whole one ends in LF. */
export async function* journalRows(path: string): Source {
  let rest = '';
  let line = 0;
  for await (const chunk of createReadStream(path, 'utf8')) {
    const lines = `${rest}${chunk}`.split('\n');
    rest = lines.pop() ?? '';
    for (const text of lines) {
      line++;
      yield parseJournalLine(text) ?? { unreadable: 'DAMAGED', line };
    }
  }
  if (rest !== '') yield { unreadable: 'TORN', line: line + 1 };
}

/** Rows that two places of one chain have under the same number, but not alike. */
export async function compare(
  one: AsyncIterable<SealedRow>,
  other: AsyncIterable<SealedRow>,
): Promise<readonly Finding[]> {
  const hashes = new Map<string, string>();
  for await (const { chain, sequence, hash } of one) hashes.set(`${chain} ${sequence}`, hash);
  const findings: Finding[] = [];
  for await (const { chain, sequence, hash } of other) {
    const there = hashes.get(`${chain} ${sequence}`);
    if (there !== undefined && there !== hash)
      findings.push({ kind: 'DIFFERENT', chain, sequence, detail: 'journal and table differ' });
  }
  return findings;
}
