import { getColumns } from 'drizzle-orm';
import { type Client, type Connection, DatabaseError, type Submittable } from 'pg';
import { auditEvents } from '../database/tables.ts';
import { codeOf } from '../database/unavailable.ts';
import { CopyRows, writerFor } from './copy-format.ts';
import type { SealedRow } from './row.ts';

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
    // PostgreSQL takes about twice as long for a row as sealing it does.
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
    if (!this.#sendRows(connection, from, this.#group.length)) return;
    if (this.#mayCommit) connection.sync();
    this.#connection = connection;
  }

  /** @returns false where one can not be sealed: then the group has failed, and its caller ends the connection */
  #sendRows({ stream }: Connection, from: number, to: number): boolean {
    const rows = new CopyRows();
    try {
      if (from === 0) rows.begin();
      for (const { row } of this.#group.slice(from, to)) {
        rows.row(columns.length);
        for (const { field, write } of columns) {
          const value = row[field];
          if (value === null) rows.null();
          else write(value, rows);
        }
      }
      stream.write(rows.bytes(to === this.#group.length));
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
  return { field: field as keyof SealedRow, name: column.name, write: writerFor(column) };
});
const name = 'add audit rows';
const text = `copy audit_events (${columns.map((column) => `"${column.name}"`).join()}) from stdin (format binary)`;
/** The connections that have the statement. */
const prepared = new WeakSet<Connection>();
