import type { Column } from 'drizzle-orm';

/**
 * The binary format of COPY: PostgreSQL takes the values as they are, where it would parse text. A value is
 * its length and what the `send` function of its type gives, numbers with the highest byte first.
 * https://www.postgresql.org/docs/current/sql-copy.html
 */

/** What begins the data: no options, no extension. */
const signature = Buffer.from(`PGCOPY\n\xff\r\n\0${'\0'.repeat(8)}`, 'latin1');
const endOfRows = -1;
const copyDone = Buffer.from('c\0\0\0\x04', 'latin1');
/** Microseconds are counted from 2000. */
const epoch = Date.UTC(2000, 0, 1);

type Write = (value: unknown, to: CopyRows) => void;

const writeText: Write = (value, to) => to.text(value as string);
const writers: Readonly<Record<string, Write>> = {
  text: writeText,
  jsonb: (value, to) => to.jsonb(JSON.stringify(value)),
  bigint: (value, to) => to.int64(value as number),
  uuid: (value, to) => to.uuid(value as string),
  bytea: (value, to) => to.hex(value as string),
  'timestamp (3) with time zone': (value, to) =>
    to.int64(((value as Date).getTime() - epoch) * 1_000),
};

/**
 * What writes a value of that column, other than null.
 * @throws TypeError where nobody has said yet how
 */
export function writerFor(column: Column): Write {
  if (column.columnType === 'PgEnumColumn') return writeText;
  const write = writers[column.getSQLType()];
  if (write === undefined)
    throw new TypeError(`How COPY takes a ${column.getSQLType()} is not written down.`);
  return write;
}

/** Room for the rows of a usual group, for all messages, of which one at a time is made. */
const shared = Buffer.allocUnsafe(64 << 10);
const headerLength = 5;

/** Rows as one message CopyData; the last ones with CopyDone behind it. */
export class CopyRows {
  #space = shared;
  #end = headerLength;

  /** Before the first row of all. */
  begin(): void {
    this.#end += signature.copy(this.#space, this.#end);
  }

  row(columns: number): void {
    this.#room(2);
    this.#end = this.#space.writeInt16BE(columns, this.#end);
  }

  null(): void {
    this.#length(-1);
  }

  text(value: string): void {
    this.#room(4 + 3 * value.length);
    const bytes = this.#space.write(value, this.#end + 4);
    this.#length(bytes);
    this.#end += bytes;
  }

  /** A byte for the version of its format, and the text. */
  jsonb(value: string): void {
    this.#room(4 + 1 + 3 * value.length);
    const bytes = 1 + this.#space.write(value, this.#end + 4 + 1);
    this.#length(bytes);
    this.#space[this.#end] = 1;
    this.#end += bytes;
  }

  /** A whole number that JavaScript holds exactly. */
  int64(value: number): void {
    this.#length(8);
    this.#room(8);
    const high = Math.floor(value / 2 ** 32);
    this.#end = this.#space.writeInt32BE(high, this.#end);
    this.#end = this.#space.writeUInt32BE(value - high * 2 ** 32, this.#end);
  }

  /** In lower case. */
  uuid(value: string): void {
    this.#length(16);
    this.#room(16);
    for (let at = 0; at < value.length; at += 2) {
      if (value.charCodeAt(at) === hyphen) at += 1;
      this.#space[this.#end++] =
        (digit(value.charCodeAt(at)) << 4) | digit(value.charCodeAt(at + 1));
    }
  }

  hex(value: string): void {
    this.#length(value.length / 2);
    this.#room(value.length / 2);
    this.#end += this.#space.write(value, this.#end, 'hex');
  }

  bytes(isLast: boolean): Buffer {
    if (isLast) this.row(endOfRows);
    this.#space.write('d');
    this.#space.writeInt32BE(this.#end - 1, 1);
    if (isLast) {
      this.#room(copyDone.length);
      this.#end += copyDone.copy(this.#space, this.#end);
    }
    return Buffer.from(this.#space.subarray(0, this.#end));
  }

  #length(bytes: number): void {
    this.#room(4);
    this.#end = this.#space.writeInt32BE(bytes, this.#end);
  }

  /** Sees that so many more bytes have room. */
  #room(bytes: number): void {
    if (this.#end + bytes <= this.#space.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#end + bytes));
    this.#space.copy(larger, 0, 0, this.#end);
    this.#space = larger;
  }
}

const hyphen = 45;
const digit = (code: number) => (code < 58 ? code - 48 : code - 87);
