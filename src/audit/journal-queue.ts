import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, sleep } from '../concurrency/clock.ts';
import type { Log } from '../database/database.ts';
import { type ChainKeys, sealWithLine } from './chain-key.ts';
import { type Journal, JournalStoppedError, NoSpaceError } from './journal.ts';
import type { Note } from './note.ts';
import type { AuditEntry } from './record.ts';
import type { SealedRow } from './row.ts';

const groupSize = 200;
/** A database that takes longer than that holds no row back from the journal. */
const longestGatheringMs = 20;

export interface Head {
  readonly sequence: number;
  readonly hash: string;
}

interface JournalQueueParts<Waiting> {
  readonly chain: string;
  readonly keys: ChainKeys;
  readonly bootId: string;
  readonly head: Head;
  readonly journal: Journal;
  readonly log: Log;
  readonly clock: Clock;
  /** Resolves when those who wait for the group before have heard, or after that time. */
  readonly gathered: (withinMs: number) => Promise<void>;
  /** Why nothing more is written, or undefined. */
  readonly refusing: () => Error | undefined;
  /** Called with a group that will now be written; what it gives back, `written` is given. */
  readonly begun: (
    group: readonly (Waiting & { row: SealedRow })[],
    onDisk: Promise<void>,
  ) => boolean;
  /** Called with it when the disk holds it. */
  readonly written: (group: readonly (Waiting & { row: SealedRow })[], isOnItsWay: boolean) => void;
  readonly failed: (waiting: Waiting, error: unknown) => void;
}

/** Rows on their way into the journal: numbered, sealed, and all that have gathered in one write. */
export class JournalQueue<Waiting extends Pick<Note, 'entry'>> {
  readonly #parts: JournalQueueParts<Waiting>;
  readonly #waiting: Waiting[] = [];
  #head: Head;
  #writing: Promise<void> | undefined;

  constructor(parts: JournalQueueParts<Waiting>) {
    this.#parts = parts;
    this.#head = parts.head;
  }

  /** The last row that is in the journal. */
  get head(): Head {
    return this.#head;
  }

  get length(): number {
    return this.#waiting.length;
  }

  push(waiting: Waiting): void {
    this.#waiting.push(waiting);
    this.#writing ??= this.#writeLoop().finally(() => {
      this.#writing = undefined;
    });
  }

  /** Takes it out; false where it has been numbered. */
  drop(waiting: Waiting): boolean {
    const index = this.#waiting.indexOf(waiting);
    if (index !== -1) this.#waiting.splice(index, 1);
    return index !== -1;
  }

  async #writeLoop(): Promise<void> {
    while (this.#waiting.length > 0) {
      // What is added while a group is stored, and by those who hear of that, is one group: two half
      // ones in turns would each wait for the other's place.
      await this.#parts.gathered(longestGatheringMs);
      await nextTurn();
      const group = this.#waiting.splice(0, groupSize);
      try {
        await this.#write(group, false);
      } catch (error) {
        if (error instanceof JournalStoppedError)
          this.#parts.log.error(
            { err: error },
            'the audit journal stopped: no act is done any more',
          );
        // What was done stays to be told: its outcome may take the last space, or waits for some.
        const outcomes = group.filter(({ entry }) => entry.intentId !== null);
        const kept = error instanceof NoSpaceError ? outcomes : [];
        for (const waiting of group)
          if (!kept.includes(waiting)) this.#parts.failed(waiting, error);
        if (kept.length > 0) await this.#writeLast(kept);
      }
    }
  }

  async #writeLast(group: readonly Waiting[]): Promise<void> {
    try {
      await this.#write(group, true);
    } catch (error) {
      if (error instanceof NoSpaceError && !this.#parts.refusing()) {
        this.#waiting.unshift(...group);
        await sleep(500, this.#parts.clock);
      } else for (const waiting of group) this.#parts.failed(waiting, error);
    }
  }

  /** @param last may use the space that is kept free */
  async #write(group: readonly Waiting[], last: boolean): Promise<void> {
    const refused = this.#parts.refusing();
    if (refused) throw refused;
    let head = this.#head;
    const sealed = group.map((waiting) => {
      const { row, line } = this.#seal(waiting.entry, head);
      head = { sequence: row.sequence, hash: row.hash };
      return { waiting, row, line };
    });
    const lines = sealed.map(({ line }) => line);
    const write = await this.#parts.journal.prepare(lines, last);
    const numbered = sealed.map(({ waiting, row }) => Object.assign(waiting, { row }));
    const { promise: onDisk, resolve } = Promise.withResolvers<void>();
    // PostgreSQL takes longer than the disk, so it begins first.
    const isOnItsWay = this.#parts.begun(numbered, onDisk);
    resolve(write());
    await onDisk;
    this.#head = head;
    this.#parts.written(numbered, isOnItsWay);
  }

  #seal(entry: AuditEntry, head: Head): ReturnType<typeof sealWithLine> {
    return sealWithLine(this.#parts.keys, {
      ...entry,
      chain: this.#parts.chain,
      sequence: head.sequence + 1,
      id: randomUUID(),
      at: new Date(this.#parts.clock.now()),
      bootId: this.#parts.bootId,
      monotonicMs: Number(process.hrtime.bigint() / 1_000_000n),
      keyId: this.#parts.keys.current,
      previous: head.hash,
    });
  }
}
