import { sql } from 'drizzle-orm';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Client } from 'pg';
import { type Clock, sleep, systemClock } from '../concurrency/clock.ts';
import type { Database } from '../database/database.ts';
import { insertRows, lastSequence, rowsOfChain } from './audit-table.ts';
import { storeClaims } from './group-claims.ts';
import type { Unsaved } from './note.ts';
import { copyRows } from './row-copy.ts';

/** The channel of the bell; the payload is the chain, and nobody relies on it. */
export const auditChannel = 'muxwarden_audit';

/** At most one NOTIFY in that time. */
const announcementsMs = 20;

/** Somebody else writes our chain: another process with our state directory, or a copy of it. */
export class ChainTakenError extends Error {
  override readonly name = 'ChainTakenError';
}

/** Rows `after < sequence <= to` were in the table and are not any more. */
export class RowsLostError extends Error {
  override readonly name = 'RowsLostError';
  readonly after: number;
  readonly to: number;

  constructor(after: number, to: number) {
    super(`The audit table has lost rows ${after + 1} to ${to}.`);
    this.after = after;
    this.to = to;
  }
}

/**
 * Stores groups of rows over one connection of its own, which holds the advisory lock of the chain:
 * a second process with the same chain can't store anything. What exceeds the time limit is cut off
 * with its connection and may or may not have been committed; storing the same group again is safe.
 *
 * Rows last by the journal, so their commit does not wait for the disk of PostgreSQL, unless a claim
 * or an answer is among them, which other instances rely on. A PostgreSQL that crashes may so come back
 * without the last ones, as may a standby that takes over: each new connection looks for that first.
 */
export class TableWriter implements AsyncDisposable {
  readonly #database: Database;
  readonly #chain: string;
  readonly #withinMs: number;
  readonly #clock: Clock;
  #client: Client | undefined;
  #closed = false;
  /** The last row that was committed. */
  #storedTo = 0;
  #unannounced = false;
  #cancelRest: (() => void) | undefined;

  constructor(database: Database, chain: string, withinMs: number, clock: Clock = systemClock) {
    this.#database = database;
    this.#chain = chain;
    this.#withinMs = withinMs;
    this.#clock = clock;
  }

  /**
   * Takes the chain, before anything of it is touched. The session of a process that was just
   * killed may still hold it for a moment.
   * @throws ChainTakenError
   */
  async takeChain(patienceMs = 5_000): Promise<void> {
    const end = this.#clock.monotonic() + patienceMs;
    for (;;) {
      try {
        await this.#connection(new AbortController().signal);
        return;
      } catch (error) {
        if (!(error instanceof ChainTakenError) || this.#clock.monotonic() > end) throw error;
        await sleep(100, this.#clock);
      }
    }
  }

  /** Told when a connection was lost that nobody was waiting for. */
  disconnected: () => void = () => {};

  /** Rows up to that one are in the table, as far as is known. */
  startFrom(sequence: number): void {
    this.#storedTo = sequence;
  }

  /**
   * All rows and what belongs to them, in one transaction that is not committed before the disk has their
   * lines of the journal; of none, that the table has what it had.
   * @param onDisk where it rejects, so does this, and nothing is stored
   * @returns for an intent whose key another process had taken: that process's operation id
   * @throws RowsLostError before anything is stored
   */
  async store(
    group: readonly Unsaved[],
    onDisk: Promise<void> = Promise.resolve(),
  ): Promise<ReadonlyMap<string, string>> {
    const cut = new AbortController();
    const attempt = this.#attempt(group, onDisk, cut.signal);
    const limit = this.#limit(onDisk);
    try {
      const taken = await Promise.race([attempt, limit.passed]);
      this.#storedTo = group.at(-1)?.row.sequence ?? this.#storedTo;
      if (group.length > 0) this.#announce();
      return taken;
    } catch (error) {
      cut.abort();
      this.#drop();
      // What was cut off fails by itself, later.
      attempt.catch(() => {});
      throw error;
    } finally {
      limit.cancel();
    }
  }

  async [Symbol.asyncDispose]() {
    this.#closed = true;
    this.#drop();
    this.#cancelRest?.();
  }

  /** The time that the database has; what the journal takes is not of it. */
  #limit(onDisk: Promise<void>): { readonly passed: Promise<never>; readonly cancel: () => void } {
    const { promise: passed, reject } = Promise.withResolvers<never>();
    let isOver = false;
    let cancel = () => {};
    onDisk.then(() => {
      if (isOver) return;
      cancel = this.#clock.after(this.#withinMs, () =>
        reject(new Error(`the database did not answer within ${this.#withinMs} ms`)),
      );
    }, reject);
    return {
      passed,
      cancel: () => {
        isOver = true;
        cancel();
      },
    };
  }

  /**
   * Tells other instances, outside the transaction that nobody should wait longer for, and once for all
   * rows of a while. What is lost with a connection costs nothing: they look by themselves as well.
   */
  #announce(): void {
    this.#unannounced = this.#cancelRest !== undefined;
    if (this.#unannounced || this.#closed) return;
    this.#cancelRest = this.#clock.after(announcementsMs, () => {
      this.#cancelRest = undefined;
      if (this.#unannounced) this.#announce();
    });
    const announced = this.#database.pool.query('select pg_notify($1, $2)', [
      auditChannel,
      this.#chain,
    ]);
    announced.catch(() => {});
  }

  async #attempt(
    group: readonly Unsaved[],
    onDisk: Promise<void>,
    cut: AbortSignal,
  ): Promise<ReadonlyMap<string, string>> {
    const client = this.#client ?? (await this.#connection(cut));
    if (group.length === 0) return new Map();
    const isPlain = group.every(({ claim, answer }) => claim === undefined && answer === undefined);
    if (isPlain && (await copyRows(client, group, onDisk))) return new Map();
    return await drizzle({ client }).transaction(async (transaction) => {
      await transaction.execute(sql`set local synchronous_commit = on`);
      await this.#insert(transaction, group);
      const taken = await storeClaims(transaction, group);
      await onDisk;
      return taken;
    });
  }

  async #insert(
    queries: Pick<NodePgDatabase, 'select' | 'insert' | 'execute'>,
    group: readonly Unsaved[],
  ): Promise<void> {
    const rows = group.map(({ row }) => row);
    const inserted = new Set(await insertRows(queries, rows));
    if (inserted.size === rows.length) return;
    // Some were there: by an attempt of ours whose end was not heard, or by somebody else.
    for (const row of rows) {
      if (inserted.has(row.sequence)) continue;
      const range = { chain: this.#chain, after: row.sequence - 1, to: row.sequence };
      const [there] = await rowsOfChain(queries, range, 1);
      if (there?.hash !== row.hash)
        throw new ChainTakenError(
          `Row ${row.sequence} of audit chain ${this.#chain} was written by somebody else. Stop whatever else runs with this state directory or a copy of it.`,
        );
    }
  }

  async #connection(cut: AbortSignal): Promise<Client> {
    const client = await this.#database.connect();
    client.on('error', () => {
      if (this.#client !== client) return;
      this.#client = undefined;
      this.disconnected();
    });
    try {
      if (this.#closed) throw new Error('the audit log is closed');
      // Without these a cut network would leave our lock with a dead session for hours.
      await client.query(
        'set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3; set statement_timeout = 0; set lock_timeout = 0; set synchronous_commit = off',
      );
      const { rows } = await client.query<{ held: boolean }>(
        "select pg_try_advisory_lock(hashtextextended('muxwarden audit ' || $1, 0)) as held",
        [this.#chain],
      );
      if (rows[0]?.held !== true)
        throw new ChainTakenError(
          `Another process writes audit chain ${this.#chain}. Stop whatever else runs with this state directory or a copy of it.`,
        );
      if (this.#storedTo > 0) {
        const last = await lastSequence(client, this.#chain, this.#storedTo);
        if (last < this.#storedTo) throw new RowsLostError(last, this.#storedTo);
      }
      // Too late for this attempt, and the next one has begun to make its own.
      cut.throwIfAborted();
    } catch (error) {
      void client.end().catch(() => {});
      throw error;
    }
    this.#client = client;
    return client;
  }

  #drop(): void {
    const client = this.#client;
    this.#client = undefined;
    void client?.end().catch(() => {});
  }
}
