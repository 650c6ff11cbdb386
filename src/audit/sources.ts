import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { rowsOfChain } from './audit-table.ts';
import type { ChainKeys } from './chain-key.ts';
import { parseHead } from './head.ts';
import { parseJournalLine } from './journal-line.ts';
import { journalLine, type SealedRow } from './row.ts';
import type { BadLine, HeadLine, Source } from './verify.ts';

/** Where rows can be read from, one after the other: a journal, an export, the table. */

/** No row is longer: what is, was not written by the service. */
const longestLine = 4 << 20;

/**
 * The lines of a journal; a last one without its end is torn, for a whole one ends in LF.
 * @param size how many of its bytes; without it, all
 * @param each told every line as it is
 */
export async function* journalRows(
  path: string,
  size?: number,
  each: (text: string) => void = () => {},
): Source {
  for await (const line of linesOf(path, size)) {
    each(line.bytes.toString());
    yield line.torn ? { bad: 'TORN', line: line.number } : rowOf(line);
  }
}

/** The lines of an export: as those of a journal, with heads among them. */
export async function* exportRows(path: string, keys: ChainKeys): Source {
  for await (const line of linesOf(path)) {
    if (line.torn) yield { bad: 'TORN', line: line.number };
    else yield isHead.test(line.bytes.toString()) ? headOf(line, keys) : rowOf(line);
  }
}

/** How long the journal is; waits a moment for a line that is just being written. */
export async function settledSize(path: string, patienceMs = 1_000): Promise<number> {
  await using file = await open(path);
  for (const end = performance.now() + patienceMs; ; ) {
    const { size } = await file.stat();
    const last = Buffer.alloc(1);
    if (size > 0) await file.read(last, 0, 1, size - 1);
    if (size === 0 || last[0] === 10 || performance.now() > end) return size;
    await sleep(50);
  }
}

/** What is a row among them. */
export async function* rowsAmong(source: Source): AsyncGenerator<SealedRow> {
  for await (const item of source) {
    if (!('head' in item) && !('bad' in item)) yield item;
    else if ('bad' in item && item.row !== undefined) yield item.row;
  }
}

/** The rows of a chain in the table, in their order; also those whose numbers no service gives. */
export async function* tableRows(
  queries: Pick<NodePgDatabase, 'select' | 'insert' | 'execute'>,
  chain: string,
  to?: number,
): AsyncGenerator<SealedRow> {
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const range = { chain, after, ...(to === undefined ? {} : { to }) };
    const rows = await rowsOfChain(queries, range, 1_000);
    yield* rows;
    const last = rows.at(-1)?.sequence;
    // Beyond what a number holds exactly, reading on would not end.
    if (last === undefined || !Number.isSafeInteger(last)) return;
    after = last;
  }
}

const isHead = /^\{"chain":"[^"]*","sequence":\d+,"hash":/;

function headOf(line: Line, keys: ChainKeys): HeadLine | BadLine {
  const head = parseHead(textOf(line) ?? '', keys);
  return head === undefined ? { bad: 'HEAD_CHANGED', line: line.number } : { head };
}

/** The same row could be written in other ways (spaces, escapes, numbers): only one is ours. */
function rowOf(line: Line): SealedRow | BadLine {
  const text = textOf(line);
  const row = text === undefined ? undefined : parseJournalLine(text);
  if (row === undefined) return { bad: 'DAMAGED', line: line.number };
  return journalLine(row) === text ? row : { bad: 'REWRITTEN', line: line.number, row };
}

interface Line {
  /** Without its LF; nothing of one that is too long. */
  readonly bytes: Buffer;
  readonly number: number;
  readonly torn: boolean;
}

async function* linesOf(path: string, size = Number.POSITIVE_INFINITY): AsyncGenerator<Line> {
  if (size === 0) return;
  let pieces: Buffer[] = [];
  let length = 0;
  let number = 0;
  const keep = (piece: Buffer) => {
    length += piece.length;
    if (length <= longestLine) pieces.push(piece);
    else pieces = [];
  };
  const take = (torn: boolean): Line => {
    const bytes = Buffer.concat(pieces);
    pieces = [];
    length = 0;
    number++;
    return { bytes, number, torn };
  };
  const stream: AsyncIterable<Buffer> = createReadStream(path, { end: size - 1 });
  for await (const chunk of stream) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      keep(chunk.subarray(start, end));
      start = end + 1;
      yield take(false);
    }
    keep(chunk.subarray(start));
  }
  if (length > 0) yield take(true);
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Undefined: the bytes are no UTF-8, so they could be read as a text that they are not. */
function textOf({ bytes }: Line): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}
