import { randomUUIDv7 } from 'node:crypto';
import type { Clock } from '../concurrency/clock.ts';
import { type ChainKeys, sealWithLine } from './chain-key.ts';
import type { AuditEntry } from './record.ts';
import type { SealedRow } from './row.ts';

export interface Head {
  readonly sequence: number;
  readonly hash: string;
}

export interface Sealer {
  readonly chain: string;
  readonly keys: ChainKeys;
  readonly bootId: string;
  readonly clock: Clock;
}

/**
 * The rows of a group, numbered and sealed in their order, each when it or one after it is first asked for:
 * so PostgreSQL works on the first ones while the others are sealed.
 */
export class Sealing {
  readonly #sealer: Sealer;
  readonly #entries: readonly AuditEntry[];
  readonly #rows: SealedRow[] = [];
  readonly #lines: string[] = [];
  #head: Head;

  constructor(sealer: Sealer, entries: readonly AuditEntry[], head: Head) {
    this.#sealer = sealer;
    this.#entries = entries;
    this.#head = head;
  }

  row(index: number): SealedRow {
    this.#sealTo(index);
    const row = this.#rows[index];
    if (row === undefined) throw new RangeError(`the group has no row ${index}`);
    return row;
  }

  /** Of all of them. */
  lines(): readonly string[] {
    this.#sealTo(this.#entries.length - 1);
    return this.#lines;
  }

  /** The last of them. */
  head(): Head {
    this.#sealTo(this.#entries.length - 1);
    return this.#head;
  }

  #sealTo(last: number): void {
    const { chain, keys, bootId, clock } = this.#sealer;
    for (const entry of this.#entries.slice(this.#rows.length, last + 1)) {
      const { row, line } = sealWithLine(keys, {
        ...entry,
        chain,
        sequence: this.#head.sequence + 1,
        id: randomUUIDv7(),
        at: new Date(clock.now()),
        bootId,
        monotonicMs: Number(process.hrtime.bigint() / 1_000_000n),
        keyId: keys.current,
        previous: this.#head.hash,
      });
      this.#rows.push(row);
      this.#lines.push(line);
      this.#head = { sequence: row.sequence, hash: row.hash };
    }
  }
}
