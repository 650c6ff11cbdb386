import { type Clock, sleep } from '../concurrency/clock.ts';
import type { Log } from '../database/database.ts';
import type { Unsaved } from './note.ts';
import { RowsLostError, type TableWriter } from './table-writer.ts';

const groupSize = 200;
/** After a connection was lost while nothing was on its way. */
const lookAgainMs = 500;

/**
 * Rows on their way into the table: in order, all that have gathered in one transaction, again and again
 * while the database is away. What the table has lost goes in front of them.
 *
 * They are in the journal already, but for the last group that came when nothing else was here: that one is
 * on its way into both places, and its transaction ends when the journal has it.
 */
export class TableQueue<Row extends Unsaved> {
  readonly #table: TableWriter;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #stored: (group: readonly Row[], taken: ReadonlyMap<string, string>) => void;
  readonly #lost: (after: number, to: number) => Promise<readonly Row[]>;
  readonly #unsaved: Row[] = [];
  readonly #recovered = new Set<() => void>();
  /** Resolves when the journal has all that is unsaved. */
  #onDisk = Promise.resolve();
  #storing: Promise<void> | undefined;
  #failing: Error | undefined;
  #closed = false;
  #cancelLook: (() => void) | undefined;

  constructor(parts: {
    readonly table: TableWriter;
    readonly log: Log;
    readonly clock: Clock;
    /** Called with a group that is in the table, and the claims of it that others had taken. */
    readonly stored: (group: readonly Row[], taken: ReadonlyMap<string, string>) => void;
    /** Reads rows again that the table had and has lost, `after < sequence <= to`. */
    readonly lost: (after: number, to: number) => Promise<readonly Row[]>;
  }) {
    this.#table = parts.table;
    this.#log = parts.log;
    this.#clock = parts.clock;
    this.#stored = parts.stored;
    this.#lost = parts.lost;
    this.#table.disconnected = () => this.#lookLater();
  }

  get length(): number {
    return this.#unsaved.length;
  }

  /** Why the table could not be written the last time. */
  get failing(): Error | undefined {
    return this.#failing;
  }

  /** Rows that the journal will have, unless others wait: then false, and they are to be pushed when it has them. */
  begin(rows: readonly Row[], onDisk: Promise<void>): boolean {
    if (this.#storing !== undefined || this.#failing !== undefined) return false;
    this.#onDisk = onDisk.catch((error: unknown) => {
      // Never written, so never to be stored.
      this.#unsaved.splice(-rows.length);
      this.#onDisk = Promise.resolve();
      throw error;
    });
    this.push(rows);
    return true;
  }

  /** Rows that the journal has. */
  push(rows: readonly Row[]): void {
    this.#unsaved.push(...rows);
    if (this.#unsaved.length > 0) this.#begin();
  }

  /** Resolves when nothing is on its way, or after that time. */
  async stored(withinMs: number): Promise<void> {
    if (this.#storing === undefined) return;
    const late = Promise.withResolvers<void>();
    const cancel = this.#clock.after(withinMs, late.resolve);
    await Promise.race([this.#storing, late.promise]);
    cancel();
  }

  /** Resolves when the table can be written again or the deadline has come. */
  async recovery(deadline: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = () => {
        this.#recovered.delete(wake);
        cancel();
        resolve();
      };
      const cancel = this.#clock.after(deadline - this.#clock.monotonic(), wake);
      this.#recovered.add(wake);
    });
  }

  /** What is unsaved stays so, for the next start. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelLook?.();
    this.#wake();
    await this.#table[Symbol.asyncDispose]();
    await this.#storing;
  }

  #begin(): void {
    this.#storing ??= this.#storeLoop().finally(() => {
      this.#storing = undefined;
    });
  }

  /** The table may have lost rows, and nobody may want to add one for long. */
  #lookLater(): void {
    if (this.#closed) return;
    this.#cancelLook ??= this.#clock.after(lookAgainMs, () => {
      this.#cancelLook = undefined;
      this.#begin();
    });
  }

  /** With nothing to store, one look whether the table has what it had. */
  async #storeLoop(): Promise<void> {
    let attempt = 0;
    do {
      const group = this.#unsaved.slice(0, groupSize);
      const began = this.#clock.monotonic();
      try {
        const taken = await this.#table.store(group, this.#onDisk);
        attempt = 0;
        this.#unsaved.splice(0, group.length);
        if (this.#failing) this.#log.info({}, 'audit rows reach the database again');
        this.#failing = undefined;
        this.#wake();
        if (group.length > 0) this.#stored(group, taken);
      } catch (error) {
        if (this.#closed) return;
        const failure = await this.#mended(error);
        if (failure === undefined) continue;
        if (this.#unsaved.length === 0) return this.#lookLater();
        if (!this.#failing)
          this.#log.error(
            { err: failure },
            'audit rows do not reach the database; acts are refused',
          );
        // The first quick failure may be a connection that was cut while idle: once more, at once.
        if (attempt > 0 || this.#clock.monotonic() - began > 500) this.#failing = failure;
        await sleep(attempt === 0 ? 0 : Math.min(100 * 2 ** (attempt - 1), 2_000), this.#clock);
        attempt++;
      }
    } while (this.#unsaved.length > 0);
  }

  /** Rows that the table has lost wait in front now; whatever else is wrong, is given back. */
  async #mended(error: unknown): Promise<Error | undefined> {
    if (!(error instanceof RowsLostError))
      return error instanceof Error ? error : new Error(String(error));
    const { after, to } = error;
    try {
      this.#unsaved.unshift(...(await this.#lost(after, to)));
    } catch (cause) {
      return new Error(`${error.message} They could not be read from the journal.`, { cause });
    }
    this.#table.startFrom(after);
    this.#log.warn(
      { rows: to - after },
      'the database lost audit rows; they come from the journal again',
    );
    return undefined;
  }

  #wake(): void {
    for (const wake of [...this.#recovered]) wake();
  }
}
