import { type ChainKeys, genesis, sameHash } from './chain-key.ts';
import type { ChainHead } from './head.ts';
import { canonicalText, type SealedRow } from './row.ts';

/**
 * Whether rows are what the service wrote: each sealed by a key that we have, numbered from 1
 * without a gap, and each naming the hash of the one before. Works on any source of rows, in the
 * order that the source has them, and reports everything that it finds rather than stopping; the
 * first finding is the first bad row.
 */
export type FindingKind =
  /** The hash is not that of the row. */
  | 'CHANGED'
  /** The line says what the row says, but not as the service writes it. */
  | 'REWRITTEN'
  /** Sealed by a key that is not in audit.key. */
  | 'UNKNOWN_KEY'
  /** Numbers are missing before this row. */
  | 'MISSING'
  /** The number was there before, or a higher one was. */
  | 'REPEATED'
  /** It does not follow the row before it. */
  | 'UNLINKED'
  /** It is of a chain that has no place here. */
  | 'FOREIGN'
  /** A line that is no row. */
  | 'DAMAGED'
  /** The last line was cut while it was written; it was never on record. */
  | 'TORN'
  /** A head was noted that lies beyond the end. */
  | 'CUT'
  /** No head says that the last row is the last: what came after it may have been cut off. */
  | 'OPEN_END'
  /** The row at a noted head is another one: an older copy was put in place. */
  | 'REPLACED'
  /** A noted head is not as the service wrote it. */
  | 'HEAD_CHANGED'
  /** Journal and table differ in this row. */
  | 'DIFFERENT'
  /** The table has this row, and the journal has not. */
  | 'JOURNAL_BEHIND'
  /** The journal has this row, and the table has not (yet). */
  | 'TABLE_BEHIND';

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
  /** How many more findings there were than are listed. */
  readonly unlisted?: number;
}

/** A line that is no row, or none as it should be written; `row` is what it says nevertheless. */
export interface BadLine {
  readonly bad: 'DAMAGED' | 'TORN' | 'REWRITTEN' | 'HEAD_CHANGED';
  readonly line: number;
  readonly row?: SealedRow;
}
/** A head within the source, as an export has them. */
export interface HeadLine {
  readonly head: ChainHead;
}
export type Source = AsyncIterable<SealedRow | BadLine | HeadLine>;

export interface VerifyOptions {
  /** The only chains that belong here; without it, any. */
  readonly chains?: ReadonlySet<string>;
  /** Each chain has to end at a head. */
  readonly endsAtHead?: boolean;
}

const mostFindings = 1_000;

export async function verify(
  source: Source,
  keys: ChainKeys,
  heads: readonly ChainHead[] = [],
  options: VerifyOptions = {},
): Promise<Verification> {
  const check = new Check(keys, heads, options);
  for await (const item of source) check.take(item);
  return check.end();
}

class Check {
  readonly #keys: ChainKeys;
  readonly #options: VerifyOptions;
  readonly #heads: ChainHead[] = [];
  readonly #findings: Finding[] = [];
  readonly #last = new Map<string, { readonly sequence: number; readonly hash: string }>();
  /** Of the rows that heads name: `''` until the row came. */
  readonly #hashAt = new Map<string, string>();
  #chain: string | null = null;
  #rows = 0;
  #unlisted = 0;

  constructor(keys: ChainKeys, heads: readonly ChainHead[], options: VerifyOptions) {
    this.#keys = keys;
    this.#options = options;
    for (const head of heads) this.#note(head);
  }

  take(item: SealedRow | BadLine | HeadLine): void {
    if ('head' in item) this.#note(item.head);
    else if ('bad' in item) this.#badLine(item);
    else this.#row(item);
  }

  #badLine({ bad, line, row }: BadLine): void {
    const chain = row?.chain ?? this.#chain;
    const next = (chain === null ? 0 : (this.#last.get(chain)?.sequence ?? 0)) + 1;
    const sequence = bad === 'HEAD_CHANGED' ? null : (row?.sequence ?? next);
    this.#find(bad, chain, sequence, `line ${line} ${said[bad]}`);
    if (row !== undefined) this.#row(row);
  }

  end(): Verification {
    for (const { chain, sequence, hash, at } of this.#heads) {
      const end = this.#last.get(chain)?.sequence ?? 0;
      const when = at.toISOString();
      const where = Math.min(sequence, end + 1);
      if (end < sequence)
        this.#find('CUT', chain, where, `it ends at row ${end}, but had ${sequence} at ${when}`);
      else if (this.#hashAt.get(place(chain, sequence)) !== hash)
        this.#find('REPLACED', chain, where, `row ${sequence} is not the one of ${when}`);
    }
    if (this.#options.endsAtHead)
      for (const [chain, { sequence }] of this.#last)
        if (!this.#heads.some((head) => head.chain === chain && head.sequence >= sequence))
          this.#find('OPEN_END', chain, sequence + 1, `no head says that row ${sequence} is last`);
    const unlisted = this.#unlisted > 0 ? { unlisted: this.#unlisted } : {};
    return { rows: this.#rows, findings: this.#findings, ...unlisted };
  }

  #row(row: SealedRow): void {
    this.#rows++;
    const { chain, sequence } = row;
    this.#chain = chain;
    const find = (kind: FindingKind, detail: string) => {
      this.#find(kind, chain, sequence, detail);
    };
    if (this.#options.chains?.has(chain) === false) {
      find('FOREIGN', `it is of chain ${chain}, which does not belong here`);
      return;
    }
    const mac = this.#keys.mac(row.keyId, canonicalText(row));
    if (mac === undefined) find('UNKNOWN_KEY', `audit.key has no key '${row.keyId}'`);
    else if (!sameHash(mac, row.hash)) find('CHANGED', 'the hash is not that of the row');
    const before = this.#last.get(chain) ?? { sequence: 0, hash: genesis };
    if (sequence <= before.sequence) {
      find('REPEATED', `it comes after row ${before.sequence}`);
      return;
    }
    if (sequence > before.sequence + 1)
      find('MISSING', `rows ${before.sequence + 1} to ${sequence - 1} are not there`);
    else if (row.previous !== before.hash) find('UNLINKED', 'it names another row before it');
    this.#last.set(chain, { sequence, hash: row.hash });
    const at = place(chain, sequence);
    if (this.#hashAt.has(at)) this.#hashAt.set(at, row.hash);
  }

  #note(head: ChainHead): void {
    this.#heads.push(head);
    const at = place(head.chain, head.sequence);
    const last = this.#last.get(head.chain);
    if (!this.#hashAt.has(at))
      this.#hashAt.set(at, last?.sequence === head.sequence ? last.hash : '');
  }

  #find(kind: FindingKind, chain: string | null, sequence: number | null, detail: string): void {
    if (this.#findings.length < mostFindings)
      this.#findings.push({ kind, chain, sequence, detail });
    else this.#unlisted++;
  }
}

const place = (chain: string, sequence: number) => `${chain} ${sequence}`;
const said: Readonly<Record<BadLine['bad'], string>> = {
  DAMAGED: 'is no row',
  TORN: 'was cut while it was written: it was never on record',
  REWRITTEN: 'is not as the service writes that row',
  HEAD_CHANGED: 'is no head that the service wrote',
};

/**
 * Where two places of one chain differ: rows under the same number that are not alike, and rows
 * that one of them has and the other lacks. Both are read once, side by side; what is out of order
 * in one of them is for `verify` to say.
 */
export async function compare(
  journal: AsyncIterable<SealedRow>,
  table: AsyncIterable<SealedRow>,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const find = (kind: FindingKind, { chain, sequence }: SealedRow, detail: string) => {
    if (findings.length < mostFindings) findings.push({ kind, chain, sequence, detail });
  };
  const one = ascending(journal);
  const other = ascending(table);
  try {
    let [left, right] = [await one.next(), await other.next()];
    while (!left.done || !right.done) {
      const order = left.done ? 1 : right.done ? -1 : left.value.sequence - right.value.sequence;
      if (order === 0 && left.value && right.value && left.value.hash !== right.value.hash)
        find('DIFFERENT', right.value, 'journal and table differ');
      if (order > 0 && right.value)
        find('JOURNAL_BEHIND', right.value, 'the table has it, and the journal has not');
      if (order < 0 && left.value)
        find('TABLE_BEHIND', left.value, 'the journal has it, and the table has not');
      const [goLeft, goRight] = [order <= 0, order >= 0];
      if (goLeft) left = await one.next();
      if (goRight) right = await other.next();
    }
    return findings;
  } finally {
    await one.return(undefined);
    await other.return(undefined);
  }
}

async function* ascending(
  rows: AsyncIterable<SealedRow>,
): AsyncGenerator<SealedRow, undefined, undefined> {
  let last = 0;
  for await (const row of rows) {
    if (row.sequence <= last) continue;
    last = row.sequence;
    yield row;
  }
}
