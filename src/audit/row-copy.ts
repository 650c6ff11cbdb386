import { type Column, getColumns } from 'drizzle-orm';
import { type Client, type Connection, DatabaseError, type Submittable } from 'pg';
import { auditEvents } from '../database/tables.ts';
import { codeOf } from '../database/unavailable.ts';
import { momentText, type SealedRow } from './row.ts';

/**
 * New rows of `audit_events` by COPY, in a transaction that ends when we say so.
 *
 * In the extended protocol PostgreSQL executes what it has been sent, and commits it at the Sync that
 * follows. The rows go out at once, the Sync once the journal has them: meanwhile the server has done its
 * work, and where the connection ends without one, also with the process, nothing was added.
 *
 * The first rows go out before the others are sealed, and those once the journal's write has begun:
 * PostgreSQL and the disk have work all that time.
 */

const uniqueViolation = '23505';

/**
 * @param onDisk nothing is committed before it resolves; where it rejects, the caller ends the connection
 * @returns false where one of the rows was there; then none was added
 */
export async function copyRows(
  client: Client,
  group: readonly { readonly row: SealedRow }[],
  onDisk: Promise<void>,
): Promise<boolean> {
  const copy = client.query(new RowCopy(group));
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
  readonly #group: readonly { readonly row: SealedRow }[];
  #connection: Connection | undefined;
  #mayCommit = false;

  constructor(group: readonly { readonly row: SealedRow }[]) {
    this.#group = group;
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
    // PostgreSQL takes two to three times as long for a row as sealing it does.
    const first = Math.floor(this.#group.length / 4);
    stream.cork();
    if (!prepared.has(connection)) connection.parse({ name, text, types: [] }, true);
    connection.bind({ statement: name }, true);
    connection.execute({}, true);
    if (first === 0) this.#sendRest(connection, 0);
    else if (this.#sendRows(connection, 0, first))
      queueMicrotask(() => this.#sendRest(connection, first));
    stream.uncork();
  }

  #sendRest(connection: Connection, from: number): void {
    const { stream } = connection;
    stream.cork();
    if (this.#sendRows(connection, from)) {
      stream.write(copyDone);
      if (this.#mayCommit) connection.sync();
      this.#connection = connection;
    }
    stream.uncork();
  }

  /** @returns false where one can not be sealed: then the group has failed, and its caller ends the connection */
  #sendRows({ stream }: Connection, from: number, to?: number): boolean {
    try {
      stream.write(copyData(linesOf(this.#group.slice(from, to))));
      return true;
    } catch (error) {
      this.#settle.reject(error);
      return false;
    }
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
  return { field: field as keyof SealedRow, name: column.name, copied: copiedBy(column) };
});
const name = 'add audit rows';
const text = `copy audit_events (${columns.map((column) => `"${column.name}"`).join()}) from stdin`;
/** The connections that have the statement. */
const prepared = new WeakSet<Connection>();

/** In the text format of COPY. */
function linesOf(group: readonly { readonly row: SealedRow }[]): string {
  let lines = '';
  for (const { row } of group) {
    let separator = '';
    for (const { field, copied } of columns) {
      const value = row[field];
      lines += separator + (value === null ? '\\N' : copied(value));
      separator = '\t';
    }
    lines += '\n';
  }
  return lines;
}

function copiedBy(column: Column): (value: unknown) => string {
  switch (column.getSQLType()) {
    case 'bytea':
      return (hex) => `\\\\x${hex}`;
    case 'jsonb':
      return (value) => escaped(JSON.stringify(value));
    case 'text':
      return (value) => escaped(String(value));
    default:
      return (value) => (value instanceof Date ? momentText(value) : String(value));
  }
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

const copyDone = Buffer.from('c\0\0\0\x04', 'latin1');

/** The message CopyData: a letter, and its length without that. */
function copyData(lines: string): Buffer {
  const length = Buffer.byteLength(lines);
  const message = Buffer.allocUnsafe(length + 5);
  message.write('d');
  message.writeInt32BE(length + 4, 1);
  message.write(lines, 5);
  return message;
}
