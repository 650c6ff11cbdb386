import { readFile } from 'node:fs/promises';
import { type Clock, sleep, systemClock } from '../concurrency/clock.ts';
import type { Log } from '../database/database.ts';
import { AuditUnavailableError, StillRunningError } from './audit.ts';
import type { ChainKeys } from './chain-key.ts';
import type { Journal } from './journal.ts';
import { JournalQueue } from './journal-queue.ts';
import { claimOf, withClaim, withoutClaim } from './kept-claim.ts';
import type { Note } from './note.ts';
import { type SealedRow, storable } from './row.ts';
import type { Head } from './sealing.ts';
import { TableQueue } from './table-queue.ts';
import type { TableWriter } from './table-writer.ts';

/**
 * The one writer of this instance's chain: numbers the rows, seals them, and puts them into journal and
 * table, each time all that have gathered meanwhile. Two loops, one for each place:
 *
 *   waiting -> (one write, synced)   -> stored, once both are done
 *           -> (one transaction, which is committed when that write is on the disk)
 *
 * Where the table is behind, or away, a group goes into the journal alone, and from there into the table.
 *
 * Always: the numbers have no gap; the journal is at least as long as the table; a row that is in
 * the journal reaches the table sooner or later, also when its caller has long been told that it
 * did not in time. For an intent that means: an outcome row follows that says that nothing was done.
 */
class Pending implements Note {
  readonly entry: Note['entry'];
  readonly answer: Note['answer'];
  claim: Note['claim'];
  /** Once it is numbered; seals it where that was not done yet. */
  sealed: (() => SealedRow) | undefined;
  isInJournal = false;
  /** Its caller was told that it is not on record. */
  abandoned = false;
  settle: (result: SealedRow | Error) => void = () => {};

  constructor({ entry, claim, answer }: Note) {
    this.entry = entry;
    this.claim = claim;
    this.answer = answer;
  }

  get row(): SealedRow {
    if (this.sealed === undefined) throw new Error('the row is not numbered yet');
    return this.sealed();
  }
}

/** Rows that may wait for a database that is away; outcomes are taken beyond that. */
const mostUnsaved = 1_000;

export class ChainWriter {
  readonly #keys: ChainKeys;
  readonly #journal: Journal;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #withinMs: number;
  readonly #stored: (rows: readonly SealedRow[]) => void;
  readonly #waiting: JournalQueue<Pending>;
  readonly #unsaved: TableQueue<Pending>;
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
    /** Called when rows that the table had lost are in it again. */
    readonly restored: () => void;
  }) {
    this.#keys = parts.keys;
    this.#journal = parts.journal;
    this.#log = parts.log;
    this.#withinMs = parts.withinMs;
    this.#clock = parts.clock ?? systemClock;
    this.#stored = parts.stored;
    this.#unsaved = new TableQueue({
      table: parts.table,
      log: parts.log,
      clock: this.#clock,
      stored: (group, taken) => this.#settle(group, taken),
      lost: async (after, to) => {
        const rows = await this.#journal.tail(({ sequence }) => sequence <= after);
        const lost = rows.filter(({ sequence }) => sequence <= to);
        if (lost.length !== to - after) throw new Error('the journal does not have all of them');
        const pending = lost.map((row) => this.#fromJournal(row));
        for (const newest of pending.slice(-1)) newest.settle = parts.restored;
        return pending;
      },
    });
    this.#waiting = new JournalQueue({
      sealer: { chain: parts.chain, keys: parts.keys, bootId: parts.bootId, clock: this.#clock },
      ...{ head: parts.head, journal: parts.journal, log: parts.log, clock: this.#clock },
      gathered: (withinMs) => this.#unsaved.stored(withinMs),
      refusing: () => this.#refusing,
      begun: (group, onDisk) => this.#unsaved.begin(group, onDisk),
      written: (group, isOnItsWay) => {
        if (!isOnItsWay) this.#unsaved.push(group);
        for (const pending of group) {
          pending.isInJournal = true;
          if (pending.abandoned) this.#closeAbandoned(pending.row);
        }
      },
      failed: (pending, error) => pending.settle(unavailable(error)),
    });
  }

  /** The last row that is in the journal. */
  get head(): Head {
    return this.#waiting.head;
  }

  /** Why no act can be put on record now, or undefined. */
  get unavailable(): Error | undefined {
    return this.#failing ?? this.#journal.unavailable;
  }

  /** Whether that lasts until the service is started again. */
  get isStopped(): boolean {
    return (this.#refusing ?? this.#journal.stopped) !== undefined;
  }

  /** Whether everything that was taken is in both places. */
  get isDone(): boolean {
    return this.#waiting.length + this.#unsaved.length === 0 && this.#failing === undefined;
  }

  get #failing(): Error | undefined {
    return this.#refusing ?? this.#journal.stopped ?? this.#unsaved.failing;
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
    const pending = rows.map((row) => this.#fromJournal(row));
    for (const newest of pending.slice(-1)) newest.settle = () => last.resolve();
    this.#unsaved.push(pending);
    await last.promise;
    cancel();
  }

  /**
   * The row, once it is in both places.
   * @throws AuditUnavailableError after that time, or at once where that is known; StillRunningError
   */
  async add(note: Note, withinMs = this.#withinMs): Promise<SealedRow> {
    const entry = storable(note.claim ? withClaim(note.entry, note.claim, this.#keys) : note.entry);
    const deadline = this.#clock.monotonic() + withinMs;
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
      const pending = new Pending({ ...note, entry });
      pending.settle = (result) => {
        cancel();
        if (result instanceof Error) reject(result);
        else resolve(result);
      };
      this.#waiting.push(pending);
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

  /** A row whose caller is gone or was told, with the claim that came with it. */
  #fromJournal(row: SealedRow): Pending {
    const nothingDone = row.intentId !== null && row.code === 'EAUDIT';
    const claim = claimOf(row, this.#keys);
    const answer = nothingDone ? null : undefined;
    const pending = new Pending({ entry: row, claim, answer });
    pending.sealed = () => row;
    pending.isInJournal = true;
    // Whether it was begun is not known here, so it is not ours to say that it was not.
    pending.abandoned = true;
    return pending;
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
    // Nobody will answer for that key.
    if (pending.entry.phase !== 'INTENT') pending.claim = undefined;
    else if (this.#waiting.drop(pending)) return;
    if (pending.isInJournal) this.#closeAbandoned(pending.row);
  }

  /** The intent is in the journal, and its caller was told that nothing will be done. */
  #closeAbandoned(
    intent: SealedRow,
    message = 'The intent was not on record in time, so nothing was done.',
  ): void {
    if (intent.phase !== 'INTENT' || this.#refusing) return;
    const closing = new Pending({
      entry: {
        ...storable(intent),
        phase: 'OUTCOME',
        outcome: 'FAILED',
        code: 'EAUDIT',
        message,
        intentId: intent.id,
        after: null,
        facts: withoutClaim(intent.facts),
      },
      answer: null,
    });
    closing.abandoned = true;
    this.#waiting.push(closing);
  }

  /** Tells the callers, now that the rows are in both places. */
  #settle(group: readonly Pending[], taken: ReadonlyMap<string, string>): void {
    this.#stored(group.map(({ row }) => row));
    for (const pending of group) {
      const holder = taken.get(pending.row.id);
      if (holder === undefined) pending.settle(pending.row);
      else {
        pending.settle(new StillRunningError(holder));
        if (!pending.abandoned)
          this.#closeAbandoned(
            pending.row,
            `The idempotency key was taken by operation ${holder} of another instance meanwhile, so nothing was done.`,
          );
      }
    }
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
