import type { Pool } from 'pg';

/** What one act was told: the type of its answer or its code, and how long that took. */
export interface Told {
  readonly kind: string;
  readonly operationId: string | undefined;
  readonly ms: number;
}

/** Actors who act without pause, each one act after the other, until they are stopped. */
export class Actors {
  readonly told: Told[] = [];
  readonly #latest = new Map<number, string>();
  readonly #stop = new AbortController();
  readonly #acting: readonly Promise<void>[];

  constructor(calls: readonly (() => Promise<Told>)[]) {
    this.#acting = calls.map(async (call, actor) => {
      while (!this.#stop.signal.aborted) {
        const one = await call();
        this.told.push(one);
        this.#latest.set(actor, one.kind);
      }
    });
  }

  get isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Whether that is what each of them was told last. */
  all(kind: string): boolean {
    const last = [...this.#latest.values()];
    return last.length === this.#acting.length && last.every((each) => each === kind);
  }

  of(kind: string): readonly Told[] {
    return this.told.filter((one) => one.kind === kind);
  }

  /** Resolves when each has been told the last. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#acting);
  }
}

/** Of these operations those that are not on record as begun and as succeeded, once each. */
export async function lostAmong(pool: Pool, operations: readonly string[]) {
  const { rows } = await pool.query<{ id: string; ends: string }>(
    `select operation_id as id, string_agg(coalesce(outcome::text, phase::text), ' ' order by sequence) as ends
     from audit_events group by operation_id`,
  );
  const ends = new Map(rows.map((row) => [row.id, row.ends]));
  return operations.filter((each) => ends.get(each) !== 'INTENT SUCCEEDED');
}
