import { Bell } from '../concurrency/bell.ts';
import type { Clock } from '../concurrency/clock.ts';
import type { Database, Log } from '../database/database.ts';
import type {
  Answered,
  Audit,
  AuditFilter,
  AuditPage,
  AuditProblem,
  AuditVisibility,
  IdempotencyClaim,
  Json,
} from './audit.ts';
import {
  intentsWithoutOutcome,
  newestRows,
  outcomeOf,
  readHeads as readChainHeads,
  rowById,
  rowsOfChain,
} from './audit-table.ts';
import type { ChainKeys } from './chain-key.ts';
import { ClaimClock } from './claim-clock.ts';
import { decodePageCursor, encodePageCursor } from './cursor.ts';
import { eventOf, sharedEventOf } from './event-of.ts';
import { Feed } from './feed.ts';
import { HeadKeeper } from './head-keeper.ts';
import { Idempotency } from './idempotency.ts';
import { findClaim, releaseClaim, storeAnswers, unansweredOutcomes } from './idempotency-table.ts';
import type { Journal } from './journal.ts';
import type { AuditEntry, AuditEvent } from './record.ts';
import type { SealedRow } from './row.ts';
import type { Head } from './sealing.ts';
import { auditChannel, type TableWriter } from './table-writer.ts';
import { ChainWriter, unavailable } from './writer.ts';

/** How often the head is noted, and old keys are forgotten, where nothing else asks for it. */
const tidyEveryMs = 60_000;
/** Alarms are kept as problems, the newest ones. */
const mostAlarms = 20;

/** The record of one instance: the writer of its chain, and reads of every chain. */
export class ChainAudit implements Audit {
  readonly added = new Bell();
  readonly restored = new Bell();
  readonly #chain: string;
  readonly #keys: ChainKeys;
  readonly #journal: Journal;
  readonly #database: Database;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #withinMs: number;
  readonly #writer: ChainWriter;
  readonly #feed: Feed;
  readonly #idempotency: Idempotency;
  readonly #claimClock: ClaimClock;
  /** How long the look at the key of an act took, of the time that its caller waits for the record. */
  readonly #waited = new WeakMap<IdempotencyClaim, number>();
  readonly #alarms: AuditProblem[] = [];
  /** Alarms that end when everything is recorded. */
  readonly #passing: AuditProblem[] = [];
  readonly #closing = new AbortController();
  readonly #heads: HeadKeeper;
  #cancelTidying: () => void = () => {};

  constructor(parts: {
    readonly stateDir: string;
    readonly chain: string;
    readonly keys: ChainKeys;
    readonly bootId: string;
    readonly journal: Journal;
    readonly table: TableWriter;
    readonly database: Database;
    readonly log: Log;
    readonly head: Head;
    readonly clock: Clock;
    readonly withinMs: number;
    readonly pollMs: number;
  }) {
    const { chain, keys, journal, table, database, log, clock, withinMs } = parts;
    this.#chain = chain;
    this.#keys = keys;
    this.#journal = journal;
    this.#database = database;
    this.#log = log;
    this.#clock = clock;
    this.#withinMs = withinMs;
    const { head, bootId } = parts;
    const stored = () => this.#rowsStored();
    const restored = () => this.restored.ring();
    this.#writer = new ChainWriter({
      ...{ chain, keys, journal, table, log, head, bootId, withinMs, clock, stored, restored },
    });
    this.#heads = new HeadKeeper({
      ...{ stateDir: parts.stateDir, chain, keys, log, clock, noted: head.sequence },
      head: () => this.#writer.head,
    });
    const queries = database.drizzle;
    this.#claimClock = new ClaimClock(queries, clock);
    this.#feed = new Feed(
      {
        heads: () => readChainHeads(queries),
        rows: (range, limit, visibleTo) => rowsOfChain(queries, range, limit, visibleTo),
      },
      this.added,
      parts.pollMs,
      clock,
    );
    this.#idempotency = new Idempotency({
      find: async (claim) => {
        const began = clock.monotonic();
        const found = await this.#inTime(findClaim(queries, claim));
        this.#waited.set(claim, clock.monotonic() - began);
        return found;
      },
      answered: async ({ answer, intentId }) => ({
        answer,
        outcome: await this.#inTime(outcomeOf(queries, intentId)).then(
          (row) => row && eventOf(row),
        ),
      }),
    });
  }

  /** Puts into the table what only the journal has, and begins to hear of others' rows. */
  async begin(missing: readonly SealedRow[]): Promise<void> {
    if (missing.length > 0) {
      this.#log.warn({ rows: missing.length }, 'audit rows of the journal go into the table');
      await this.#writer.catchUp(missing);
    }
    void this.#hear();
    this.#tidyLater();
  }

  /** No row is written by this process. */
  refuse(reason: Error): void {
    this.#writer.refuse(reason);
  }

  async append(entry: AuditEntry, claim?: IdempotencyClaim): Promise<AuditEvent> {
    return eventOf(await this.#writer.add({ entry, claim }, this.#withinMsOf(claim)));
  }

  async intend(entry: AuditEntry, claim?: IdempotencyClaim): Promise<AuditEvent> {
    return eventOf(await this.#writer.add({ entry, claim }, this.#withinMsOf(claim)));
  }

  async conclude(entry: AuditEntry, answer: Json): Promise<AuditEvent> {
    return eventOf(await this.#writer.add({ entry, answer }));
  }

  once(claim: IdempotencyClaim, act: () => Promise<Answered>): Promise<Answered> {
    return this.#idempotency.once(claim, act);
  }

  async event(id: string): Promise<AuditEvent | undefined> {
    const row = await rowById(this.#database.drizzle, id);
    return row && eventOf(row);
  }

  async page(filter: AuditFilter, first: number, after?: string): Promise<AuditPage> {
    const position = after === undefined ? undefined : decodePageCursor(after);
    const rows = await newestRows(this.#database.drizzle, filter, first + 1, position);
    return {
      edges: rows
        .slice(0, first)
        .map((row) => ({ cursor: encodePageCursor(row), event: eventOf(row) })),
      hasNextPage: rows.length > first,
    };
  }

  async follow(
    after: string | undefined,
    visibleTo: () => AuditVisibility | null | undefined,
    signal: AbortSignal,
    changed?: Bell,
  ) {
    const items = await this.#feed.follow(after, visibleTo, signal, changed);
    return (async function* () {
      for await (const { cursor, event } of items) yield { cursor, event: sharedEventOf(event) };
    })();
  }

  async openIntents(): Promise<readonly AuditEvent[]> {
    const rows = await intentsWithoutOutcome(this.#database.drizzle, this.#chain);
    return rows.map((row) => eventOf(row));
  }

  async unanswered(): Promise<readonly AuditEvent[]> {
    const claims = await unansweredOutcomes(this.#database.drizzle, this.#chain);
    const left = claims.filter((claim) => !this.#idempotency.isActing(claim));
    const events = await Promise.all(left.map(({ id }) => this.event(id)));
    return events.filter((event) => event !== undefined);
  }

  async answer(rowId: string, answer: Json | null): Promise<void> {
    if (answer === null) await releaseClaim(this.#database.drizzle, rowId);
    else await storeAnswers(this.#database.drizzle, new Map([[rowId, answer]]));
  }

  digest(text: string): string {
    const mac = this.#keys.mac(this.#keys.current, text);
    if (mac === undefined) throw new Error('there is no audit key');
    return mac;
  }

  alarm(problem: Omit<AuditProblem, 'memberId'>, until: 'restart' | 'recorded' = 'restart'): void {
    this.#log.error({ code: problem.code }, `audit alarm: ${problem.message}`);
    const alarms = until === 'restart' ? this.#alarms : this.#passing;
    alarms.push({ ...problem, memberId: null });
    if (alarms.length > mostAlarms) alarms.shift();
  }

  problems(): readonly AuditProblem[] {
    const { unavailable: reason } = this.#writer;
    const alarms = [...this.#passing, ...this.#alarms];
    if (reason === undefined) return alarms;
    return [
      {
        code: 'AUDIT_UNAVAILABLE',
        message: `No act can be put on record, so acts are refused: ${reason.message}`,
        remedy: this.#writer.isStopped
          ? 'Mend what the message says, then restart the service.'
          : 'Mend what the message says; the service goes on by itself.',
        memberId: null,
      },
      ...alarms,
    ];
  }

  async [Symbol.asyncDispose]() {
    this.#closing.abort();
    this.#cancelTidying();
    this.#feed.stop();
    await this.#idempotency.idle();
    await this.#writer.close(5_000);
    await this.#heads.close();
    await this.#journal[Symbol.asyncDispose]();
  }

  #rowsStored(): void {
    this.added.ring();
    if (this.#writer.isDone) this.#passing.length = 0;
    this.#heads.grown();
  }

  /** NOTIFY is a bell only: the feed looks by itself as well. */
  async #hear(): Promise<void> {
    const bell = this.#database.notifications.bell(auditChannel);
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await bell.wait(signal);
      this.added.ring();
    }
  }

  #tidyLater(): void {
    this.#cancelTidying = this.#clock.after(tidyEveryMs, () => {
      void this.#heads.note();
      this.#claimClock.forgetOldClaims().catch((error: unknown) => {
        this.#log.warn({ err: error }, 'old idempotency keys could not be forgotten');
      });
      if (!this.#closing.signal.aborted) this.#tidyLater();
    });
  }

  #withinMsOf(claim: IdempotencyClaim | undefined): number {
    return this.#withinMs - ((claim && this.#waited.get(claim)) ?? 0);
  }

  /** A database that does not answer is one that is away. */
  async #inTime<T>(query: Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>();
    const cancel = this.#clock.after(this.#withinMs, () =>
      late.reject(new Error('the database did not answer in time')),
    );
    try {
      return await Promise.race([query, late.promise]);
    } catch (error) {
      throw unavailable(error);
    } finally {
      cancel();
    }
  }
}
