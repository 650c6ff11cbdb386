import { type Clock, sleep } from '../concurrency/clock.ts';
import type { Log } from '../database/database.ts';
import type { Unsaved } from './note.ts';
import type { TableWriter } from './table-writer.ts';

const groupSize = 200;

/**
 * Rows of the journal on their way into the table: in order, all that have gathered in one transaction,
 * again and again while the database is away.
 */
export class TableQueue<Row extends Unsaved> {
  readonly #table: TableWriter;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #stored: (group: readonly Row[], taken: ReadonlyMap<string, string>) => void;
  readonly #unsaved: Row[] = [];
  readonly #recovered = new Set<() => void>();
  #storing: Promise<void> | undefined;
  #failing: Error | undefined;
  #closed = false;

  constructor(parts: {
    readonly table: TableWriter;
    readonly log: Log;
    readonly clock: Clock;
    /** Called with a group that is in the table, and the claims of it that others had taken. */
    readonly stored: (group: readonly Row[], taken: ReadonlyMap<string, string>) => void;
  }) {
    this.#table = parts.table;
    this.#log = parts.log;
    this.#clock = parts.clock;
    this.#stored = parts.stored;
  }

  get length(): number {
    return this.#unsaved.length;
  }

  /** Why the table could not be written the last time. */
  get failing(): Error | undefined {
    return this.#failing;
  }

  push(rows: readonly Row[]): void {
    this.#unsaved.push(...rows);
    if (this.#unsaved.length === 0) return;
    this.#storing ??= this.#storeLoop().finally(() => {
      this.#storing = undefined;
    });
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
    this.#wake();
    await this.#table[Symbol.asyncDispose]();
    await this.#storing;
  }

  async #storeLoop(): Promise<void> {
    for (let attempt = 0; this.#unsaved.length > 0; ) {
      const group = this.#unsaved.slice(0, groupSize);
      const began = this.#clock.monotonic();
      try {
        const taken = await this.#table.store(group);
        attempt = 0;
        this.#unsaved.splice(0, group.length);
        if (this.#failing) this.#log.info({}, 'audit rows reach the database again');
        this.#failing = undefined;
        this.#wake();
        this.#stored(group, taken);
      } catch (error) {
        if (this.#closed) return;
        const failure = error instanceof Error ? error : new Error(String(error));
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
    }
  }

  #wake(): void {
    for (const wake of [...this.#recovered]) wake();
  }
}
