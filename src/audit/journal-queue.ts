import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, sleep } from '../concurrency/clock.ts';
import type { Log } from '../database/database.ts';
import { type Journal, JournalStoppedError, NoSpaceError } from './journal.ts';
import type { Note } from './note.ts';
import type { SealedRow } from './row.ts';
import { type Head, type Sealer, Sealing } from './sealing.ts';

const groupSize = 200;
/** A database that takes longer than that holds no row back from the journal. */
const longestGatheringMs = 20;

interface JournalQueueParts<Waiting> {
  readonly sealer: Sealer;
  readonly head: Head;
  readonly journal: Journal;
  readonly log: Log;
  readonly clock: Clock;
  /** Resolves when those who wait for the group before have heard, or after that time. */
  readonly gathered: (withinMs: number) => Promise<void>;
  /** Why nothing more is written, or undefined. */
  readonly refusing: () => Error | undefined;
  /** Called with a group that will now be written; what it gives back, `written` is given. */
  readonly begun: (group: readonly Waiting[], onDisk: Promise<void>) => boolean;
  /** Called with it when the disk holds it. */
  readonly written: (group: readonly Waiting[], isOnItsWay: boolean) => void;
  readonly failed: (waiting: Waiting, error: unknown) => void;
}

/** Rows on their way into the journal: numbered, sealed, and all that have gathered in one write. */
export class JournalQueue<
  Waiting extends Pick<Note, 'entry'> & { sealed: (() => SealedRow) | undefined },
> {
  readonly #parts: JournalQueueParts<Waiting>;
  readonly #waiting: Waiting[] = [];
  #head: Head;
  #writing: Promise<void> | undefined;
  /** What the log says of the last group: once, until there is something else to say. */
  #said: 'failing' | 'stopped' | undefined;

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
        if (this.#said) this.#parts.log.info({}, 'the audit journal can be written again');
        this.#said = undefined;
      } catch (error) {
        this.#sayFailing(error);
        // What was done stays to be told: its outcome may take the last space, or waits for some.
        const outcomes = group.filter(({ entry }) => entry.intentId !== null);
        const kept = error instanceof NoSpaceError ? outcomes : [];
        for (const waiting of group)
          if (!kept.includes(waiting)) this.#parts.failed(waiting, error);
        if (kept.length > 0) await this.#writeLast(kept);
      }
    }
  }

  #sayFailing(error: unknown): void {
    const saying = error instanceof JournalStoppedError ? 'stopped' : 'failing';
    if (this.#said === saying || this.#parts.refusing()) return;
    this.#said = saying;
    this.#parts.log.error(
      { err: error },
      saying === 'stopped'
        ? 'the audit journal stopped: no act is done any more'
        : 'the audit journal can not be written; acts are refused',
    );
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
    const entries = group.map(({ entry }) => entry);
    const sealing = new Sealing(this.#parts.sealer, entries, this.#head);
    const write = await this.#parts.journal.prepare(() => sealing.lines(), last);
    group.forEach((waiting, index) => {
      waiting.sealed = () => sealing.row(index);
    });
    const { promise: onDisk, resolve } = Promise.withResolvers<void>();
    // PostgreSQL takes longer than the disk, so it begins first; the write seals what it left unsealed.
    const isOnItsWay = this.#parts.begun(group, onDisk);
    resolve(write());
    await onDisk;
    this.#head = sealing.head();
    this.#parts.written(group, isOnItsWay);
  }
}
