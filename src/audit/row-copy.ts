import { getColumns } from 'drizzle-orm';
import { type Client, type Connection, DatabaseError, type Submittable } from 'pg';
import { auditEvents } from '../database/tables.ts';
import { codeOf } from '../database/unavailable.ts';
import type { SealedRow } from './row.ts';

/**
 * New rows of `audit_events` by COPY, in a transaction that ends when we say so.
 *
 * In the extended protocol PostgreSQL executes what it has been sent, and commits it at the Sync that
 * follows. The rows go out at once, the Sync once the journal has them: meanwhile the server has done its
 * work, and where the connection ends without one, also with the process, nothing was added.
 */

const uniqueViolation = '23505';

/**
 * @param onDisk nothing is committed before it resolves; where it rejects, the caller ends the connection
 * @returns false where one of the rows was there; then none was added
 */
export async function copyRows(
  client: Client,
  rows: readonly SealedRow[],
  onDisk: Promise<void>,
): Promise<boolean> {
  const copy = client.query(new RowCopy(rows));
  onDisk.then(
    () => copy.commit(),
    () => {},
  );
  try {
    await copy.committed;
    return true;
  } catch (error) {
    if (codeOf(error) !== uniqueViolation) throw error;
    return false;
  }
}

class RowCopy implements Submittable {
  readonly committed: Promise<void>;
  readonly #settle: PromiseWithResolvers<void>;
  readonly #rows: readonly SealedRow[];
  #connection: Connection | undefined;
  #mayCommit = false;

  constructor(rows: readonly SealedRow[]) {
    this.#rows = rows;
    this.#settle = Promise.withResolvers();
    this.committed = this.#settle.promise;
  }

  commit(): void {
    if (this.#mayCommit) return;
    this.#mayCommit = true;
    this.#connection?.sync();
  }

  submit(connection: Connection): void {
    const { stream } = connection;
    stream.cork();
    if (!prepared.has(connection)) connection.parse({ name, text, types: [] }, true);
    connection.bind({ statement: name }, true);
    connection.execute({}, true);
    stream.write(copyData(linesOf(this.#rows)));
    if (this.#mayCommit) connection.sync();
    stream.uncork();
    this.#connection = connection;
  }

  /** The statement lasts, also where its rows are refused. */
  handleCopyInResponse(connection: Connection): void {
    prepared.add(connection);
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.#settle.resolve();
  }

  handleError(error: unknown): void {
    // Of a transaction that PostgreSQL refused, the Sync commits nothing: it makes the connection ready.
    if (error instanceof DatabaseError) this.commit();
    this.#settle.reject(error);
  }
}

const columns = Object.entries(getColumns(auditEvents)).map(([field, column]) => {
  return { field: field as keyof SealedRow, name: column.name };
});
const name = 'add audit rows';
const text = `copy audit_events (${columns.map((column) => `"${column.name}"`).join()}) from stdin`;
/** The connections that have the statement. */
const prepared = new WeakSet<Connection>();

/** In the text format of COPY. */
function linesOf(rows: readonly SealedRow[]): string {
  let lines = '';
  for (const row of rows) {
    let separator = '';
    for (const { field } of columns) {
      lines += separator + copied(field, row[field]);
      separator = '\t';
    }
    lines += '\n';
  }
  return lines;
}

function copied(field: keyof SealedRow, value: SealedRow[keyof SealedRow]): string {
  if (value === null) return '\\N';
  if (typeof value === 'string') {
    if (field === 'hash' || field === 'previous') return `\\\\x${value}`;
    return escaped(value);
  }
  if (typeof value === 'number') return String(value);
  return value instanceof Date ? value.toISOString() : escaped(JSON.stringify(value));
}

const special = /[\\\t\n\r]/;
const escaped = (value: string) =>
  special.test(value) ? value.replaceAll(/[\\\t\n\r]/g, (each) => escapes[each] ?? each) : value;
const escapes: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
};

/** The messages CopyData and CopyDone: a letter each, and their length without it. */
function copyData(lines: string): Buffer {
  const length = Buffer.byteLength(lines);
  const messages = Buffer.allocUnsafe(length + 10);
  messages.write('d');
  messages.writeInt32BE(length + 4, 1);
  messages.write(lines, 5);
  messages.write('c', length + 5);
  messages.writeInt32BE(4, length + 6);
  return messages;
}
