import type { Clock } from '../concurrency/clock.ts';
import type { Database, Log } from '../database/database.ts';

/**
 * When credentials were last used, written behind: known at once in memory, on disk at most once a
 * minute for each. A write that fails is tried again; at worst the last minutes are lost.
 */
export class LastUse {
  readonly #database: Pick<Database, 'pool'>;
  readonly #table: 'api_keys' | 'sessions';
  readonly #clock: Clock;
  readonly #log: Log | undefined;
  readonly #used = new Map<string, number>();
  readonly #unwritten = new Set<string>();
  #cancel: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(
    database: Pick<Database, 'pool'>,
    table: 'api_keys' | 'sessions',
    clock: Clock,
    log?: Log,
  ) {
    this.#database = database;
    this.#table = table;
    this.#clock = clock;
    this.#log = log;
  }

  /** What is known here, or what the database said, whichever is later. */
  of(id: string, stored: Date | null): Date | null {
    const used = this.#used.get(id);
    return used === undefined || (stored !== null && stored.getTime() >= used)
      ? stored
      : new Date(used);
  }

  touch(id: string): void {
    this.#used.set(id, this.#clock.now());
    this.#unwritten.add(id);
    this.#cancel ??= this.#clock.after(60_000, () => {
      this.#writing = this.flush();
    });
  }

  /** Forgets all but these. */
  keep(ids: ReadonlySet<string>): void {
    for (const id of this.#used.keys()) if (!ids.has(id)) this.#used.delete(id);
    for (const id of this.#unwritten) if (!ids.has(id)) this.#unwritten.delete(id);
  }

  async flush(): Promise<void> {
    this.#cancel?.();
    this.#cancel = undefined;
    const ids = [...this.#unwritten];
    if (ids.length === 0) return;
    this.#unwritten.clear();
    const times = ids.map((id) => new Date(this.#used.get(id) ?? 0));
    try {
      await this.#database.pool.query(writes[this.#table], [ids, times]);
    } catch (err) {
      for (const id of ids) if (this.#used.has(id)) this.#unwritten.add(id);
      this.#log?.warn({ err }, 'the last use of credentials could not be written; trying again');
      this.#cancel ??= this.#clock.after(60_000, () => {
        this.#writing = this.flush();
      });
    }
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.flush();
    this.#cancel?.();
  }
}

const write = (table: string, column: string) =>
  `update ${table} set ${column} = used.at
     from unnest($1::uuid[], $2::timestamptz[]) as used (id, at)
    where ${table}.id = used.id and (${column} is null or ${column} < used.at)`;
const writes = {
  api_keys: write('api_keys', 'last_used_at'),
  sessions: write('sessions', 'last_seen_at'),
} as const;
