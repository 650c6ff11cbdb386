import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, sleep, systemClock } from '../concurrency/clock.ts';
import type { Log } from '../database/database.ts';
import { AuditUnavailableError, StillRunningError } from './audit.ts';
import { type ChainKeys, sealWithLine } from './chain-key.ts';
import { type Journal, JournalStoppedError, NoSpaceError } from './journal.ts';
import { claimOf, withClaim, withoutClaim } from './kept-claim.ts';
import type { Note } from './note.ts';
import type { AuditEntry } from './record.ts';
import { type SealedRow, storable } from './row.ts';
import { TableQueue } from './table-queue.ts';
import type { TableWriter } from './table-writer.ts';

/**
 * The one writer of this instance's chain: numbers the rows, seals them, puts them into the journal
 * and then into the table, each time all that have gathered meanwhile. Two loops, one for each place:
 *
 *   waiting -> (one write, synced) -> unsaved -> (one transaction) -> stored
 *
 * Always: the numbers have no gap; the journal is at least as long as the table; a row that is in
 * the journal reaches the table sooner or later, also when its caller has long been told that it
 * did not in time. For an intent that means: an outcome row follows that says that nothing was done.
 */
interface Pending extends Omit<Note, 'claim'> {
  claim?: Note['claim'];
  readonly settle: (result: SealedRow | Error) => void;
  row?: SealedRow;
  /** Its caller was told that it is not on record. */
  abandoned: boolean;
}

export interface Head {
  readonly sequence: number;
  readonly hash: string;
}

const groupSize = 200;
/** A database that takes longer than that holds no row back from the journal. */
const longestGatheringMs = 20;
/** Rows that may wait for a database that is away; outcomes are taken beyond that. */
const mostUnsaved = 1_000;

export class ChainWriter {
  readonly #chain: string;
  readonly #keys: ChainKeys;
  readonly #journal: Journal;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #withinMs: number;
  readonly #bootId: string;
  readonly #stored: (rows: readonly SealedRow[]) => void;
  readonly #waiting: Pending[] = [];
  readonly #unsaved: TableQueue<Pending & { row: SealedRow }>;
  #head: Head;
  #journaling: Promise<void> | undefined;
  #refusing: Error | undefined;
  #closed = false;

  constructor(parts: {
    readonly chain: string;
    readonly keys: ChainKeys;
    readonly journal: Journal;
    readonly table: TableWriter;
    readonly log: Log;
    readonly head: Head;
    readonly bootId: string;
    readonly withinMs: number;
    readonly clock?: Clock;
    /** Called with rows that are in both places now. */
    readonly stored: (rows: readonly SealedRow[]) => void;
  }) {
    this.#chain = parts.chain;
    this.#keys = parts.keys;
    this.#journal = parts.journal;
    this.#log = parts.log;
    this.#head = parts.head;
    this.#bootId = parts.bootId;
    this.#withinMs = parts.withinMs;
    this.#clock = parts.clock ?? systemClock;
    this.#stored = parts.stored;
    this.#unsaved = new TableQueue({
      table: parts.table,
      log: parts.log,
      clock: this.#clock,
      stored: (group, taken) => this.#settle(group, taken),
    });
  }

  /** The last row that is in the journal. */
  get head(): Head {
    return this.#head;
  }

  /** Why no act can be put on record now, or undefined. */
  get unavailable(): Error | undefined {
    return this.#refusing ?? this.#journal.stopped ?? this.#unsaved.failing;
  }

  /** Whether everything that was taken is in both places. */
  get isDone(): boolean {
    return this.#waiting.length + this.#unsaved.length === 0 && this.unavailable === undefined;
  }

  /** Nothing more is written by this process. */
  refuse(reason: Error): void {
    this.#refusing ??= reason;
  }

  /**
   * Rows that the journal has and the table lacks, from an earlier process, with the claims of the
   * intents among them; a claim after which nothing was done is taken back. Resolves when they are
   * stored, or when waiting for that has taken too long; they are stored some time in any case.
   */
  async catchUp(rows: readonly SealedRow[]): Promise<void> {
    const last = Promise.withResolvers<void>();
    const cancel = this.#clock.after(this.#withinMs, () => last.resolve());
    const unsaved = rows.map((row) => {
      const settle = () => (row === rows.at(-1) ? last.resolve() : undefined);
      const nothingDone = row.intentId !== null && row.code === 'EAUDIT';
      return {
        entry: row,
        row,
        claim: claimOf(row, this.#keys),
        claimedAt: row.at,
        answer: nothingDone ? null : undefined,
        // Whether it was begun is not known here, so it is not ours to say that it was not.
        abandoned: true,
        settle,
      };
    });
    this.#unsaved.push(unsaved);
    await last.promise;
    cancel();
  }

  /**
   * The row, once it is in both places.
   * @throws AuditUnavailableError after 2 s, or at once where that is known; StillRunningError
   */
  async add(note: Note): Promise<SealedRow> {
    const entry = storable(note.claim ? withClaim(note.entry, note.claim, this.#keys) : note.entry);
    const deadline = this.#clock.monotonic() + this.#withinMs;
    const isOutcomeOfAct = entry.intentId !== null;
    // A database that is known to be away would leave an intent in the journal alone: wait first.
    if (entry.phase === 'INTENT' && this.#unsaved.failing) await this.#unsaved.recovery(deadline);
    this.#check(entry.phase === 'INTENT');
    if (!isOutcomeOfAct && this.#unsaved.length + this.#waiting.length >= mostUnsaved)
      throw unavailable(new Error('too many rows wait for the database'));

    return await new Promise<SealedRow>((resolve, reject) => {
      const cancel = this.#clock.after(deadline - this.#clock.monotonic(), () => {
        this.#abandon(pending);
        reject(unavailable(this.unavailable ?? new Error('it took too long')));
      });
      const pending: Pending = {
        ...note,
        entry,
        abandoned: false,
        settle(result) {
          cancel();
          if (result instanceof Error) reject(result);
          else resolve(result);
        },
      };
      this.#waiting.push(pending);
      this.#journalize();
    });
  }

  /** Stops taking rows and waits, for a bounded time, until all that were taken are stored. */
  async close(withinMs: number): Promise<void> {
    this.#closed = true;
    const end = this.#clock.monotonic() + withinMs;
    while (this.#waiting.length + this.#unsaved.length > 0 && this.#clock.monotonic() < end)
      await sleep(10, this.#clock);
    if (this.#unsaved.length > 0)
      this.#log.warn(
        { rows: this.#unsaved.length },
        'audit rows are in the journal only; the next start puts them into the table',
      );
    this.#refusing ??= new Error('the service is stopping');
    await this.#unsaved.close();
  }

  #check(isIntent: boolean): void {
    const reason =
      this.#refusing ??
      this.#journal.stopped ??
      (isIntent ? this.#unsaved.failing : undefined) ??
      (this.#closed && isIntent ? new Error('the service is stopping') : undefined);
    if (reason) throw unavailable(reason);
  }

  #abandon(pending: Pending): void {
    pending.abandoned = true;
    const index = this.#waiting.indexOf(pending);
    // Nobody will answer for that key.
    if (pending.entry.phase !== 'INTENT') pending.claim = undefined;
    if (index !== -1 && pending.entry.phase === 'INTENT') this.#waiting.splice(index, 1);
    else if (pending.row) this.#closeAbandoned(pending.row);
  }

  /** The intent is in the journal, and its caller was told that nothing will be done. */
  #closeAbandoned(intent: SealedRow): void {
    if (intent.phase !== 'INTENT' || this.#refusing) return;
    this.#waiting.push({
      entry: {
        ...storable(intent),
        phase: 'OUTCOME',
        outcome: 'FAILED',
        code: 'EAUDIT',
        message: 'The intent was not on record in time, so nothing was done.',
        intentId: intent.id,
        after: null,
        facts: withoutClaim(intent.facts),
      },
      answer: null,
      abandoned: true,
      settle: () => {},
    });
    this.#journalize();
  }

  #journalize(): void {
    this.#journaling ??= this.#journalLoop().finally(() => {
      this.#journaling = undefined;
    });
  }

  async #journalLoop(): Promise<void> {
    while (this.#waiting.length > 0) {
      // What is added while a group is stored, and by those who hear of that, is one group: two half
      // ones in turns would each wait for the other's place.
      await this.#unsaved.stored(longestGatheringMs);
      await nextTurn();
      const group = this.#waiting.splice(0, groupSize);
      try {
        await this.#journalGroup(group, false);
      } catch (error) {
        if (error instanceof JournalStoppedError)
          this.#log.error({ err: error }, 'the audit journal stopped: no act is done any more');
        // What was done stays to be told: its outcome may take the last space, or waits for some.
        const outcomes = group.filter(({ entry }) => entry.intentId !== null);
        const kept = error instanceof NoSpaceError ? outcomes : [];
        for (const pending of group)
          if (!kept.includes(pending)) pending.settle(unavailable(error));
        if (kept.length > 0) await this.#journalLast(kept);
      }
    }
  }

  async #journalLast(group: readonly Pending[]): Promise<void> {
    try {
      await this.#journalGroup(group, true);
    } catch (error) {
      if (error instanceof NoSpaceError && !this.#refusing) {
        this.#waiting.unshift(...group);
        await sleep(500, this.#clock);
      } else for (const pending of group) pending.settle(unavailable(error));
    }
  }

  async #journalGroup(group: readonly Pending[], last: boolean): Promise<void> {
    if (this.#refusing) throw this.#refusing;
    let head = this.#head;
    const sealed = group.map((pending) => {
      const { row, line } = this.#seal(pending.entry, head);
      head = { sequence: row.sequence, hash: row.hash };
      return { pending, row, line };
    });
    await this.#journal.append(
      sealed.map(({ line }) => line),
      last,
    );
    this.#head = head;
    this.#unsaved.push(sealed.map(({ pending, row }) => Object.assign(pending, { row })));
    for (const { pending, row } of sealed) if (pending.abandoned) this.#closeAbandoned(row);
  }

  /** Tells the callers, now that the rows are in both places. */
  #settle(
    group: readonly (Pending & { row: SealedRow })[],
    taken: ReadonlyMap<string, string>,
  ): void {
    this.#stored(group.map(({ row }) => row));
    for (const pending of group) {
      const holder = taken.get(pending.row.id);
      if (holder === undefined) pending.settle(pending.row);
      else {
        pending.settle(new StillRunningError(holder));
        if (!pending.abandoned) this.#closeAbandoned(pending.row);
      }
    }
  }

  #seal(entry: AuditEntry, head: Head): ReturnType<typeof sealWithLine> {
    return sealWithLine(this.#keys, {
      ...entry,
      chain: this.#chain,
      sequence: head.sequence + 1,
      id: randomUUID(),
      at: new Date(this.#clock.now()),
      bootId: this.#bootId,
      monotonicMs: Number(process.hrtime.bigint() / 1_000_000n),
      keyId: this.#keys.current,
      previous: head.hash,
    });
  }
}

/** What callers see; the cause goes to the log with it. */
export function unavailable(cause: unknown): AuditUnavailableError {
  if (cause instanceof AuditUnavailableError) return cause;
  return new AuditUnavailableError(
    'The audit log can not be written now, so nothing was done. Try again; if that lasts, the log of the service says why.',
    { cause },
  );
}

export async function readBootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}
