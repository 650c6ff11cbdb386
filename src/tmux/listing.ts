import type { Clock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import { Doorbell } from './doorbell.ts';
import { Freshness, type FreshnessRules, type Moment } from './freshness.ts';
import { isCosmetic, listingLooksTheSame } from './listing-change.ts';
import { HelperError, type MemberHelper } from './member-helper.ts';
import { type ServerChange, serverKey } from './member-tmux.ts';
import type { MemberListing, Reason, ServerRef } from './model.ts';
import {
  type DirectoryRow,
  type MemberRow,
  parseSnapshot,
  type ServerRow,
  type Snapshot,
} from './rows.ts';
import { generationOf, ServerCell } from './server-cell.ts';
import { snapshotRequest } from './snapshot-request.ts';

/**
 * One member's listing: an asynchronous cache, stale while it revalidates.
 *
 * - A reader gets what is known, at once; what is old is asked again behind the answer. Only a cold
 *   value (never seen, or old because nobody asked) makes its reader wait, and for a bounded time.
 * - One snapshot is in flight at a time, whoever asks. It tells nothing of a server on which we
 *   acted after it had begun.
 * - The member has a freshness (could we look?) and each server's rows have their own (did it
 *   answer?). A failing server is left out of snapshots until its pause is over; a failing member
 *   is not asked until its own is. `refresh` asks at once.
 * - The version changes exactly when a reader sees something else: also by age alone, and never for
 *   figures and times alone. Followers are woken then, for cosmetic changes once a second at most.
 */
export interface ListingOptions {
  readonly memberId: string;
  readonly helper: MemberHelper;
  readonly clock: Clock;
  readonly config: Config;
  /** Differs in each life of this service; versions begin with it. */
  readonly start: string;
  readonly installedVersion: () => string | null;
  readonly ownClientPids: () => ReadonlySet<number>;
  readonly changed: () => void;
}

interface Attempt {
  readonly started: Moment;
  /** How many acts of ours had ended when it began. */
  readonly acts: number;
  readonly done: Promise<void>;
}

const askMs = 3_000;
const cosmeticMs = 1_000;
/** How long, and how many, servers that ended are still shown. */
const absentMs = 600_000;
const maxAbsent = 64;

export class Listing implements Disposable {
  readonly #options: ListingOptions;
  readonly #rules: FreshnessRules;
  readonly #freshness: Freshness;
  readonly #cells = new Map<string, ServerCell>();
  readonly #doorbell: Doorbell;
  readonly #closed = new AbortController();
  #attempt: Attempt | undefined;
  /** The look that everybody shares who wants one from after now. */
  #next: Promise<void> | undefined;
  /** Ask again as soon as the attempt in flight is over. */
  #again = false;
  /** The next attempt leaves no server out. */
  #pastBackOff = false;
  #dueAt = Number.NEGATIVE_INFINITY;
  #acts = 0;
  #bootId: string | undefined;
  #deadSockets = 0;
  #watchers = 0;
  #versions = 0;
  #view: MemberListing;
  #viewHoldsUntil = Number.POSITIVE_INFINITY;
  #rungAt = Number.NEGATIVE_INFINITY;
  #cancelTimer: () => void = () => {};
  #cancelRing: (() => void) | undefined;

  constructor(options: ListingOptions) {
    this.#options = options;
    const { config, clock } = options;
    const freshMs = config.listingIntervalMs + config.listingFreshGraceMs;
    this.#rules = {
      freshMs,
      maxAgeMs: Math.max(config.listingMaxAgeMs, freshMs),
      backOff: { firstMs: config.listingBackOffMs, maxMs: config.listingBackOffMaxMs },
    };
    this.#freshness = new Freshness(this.#rules);
    this.#doorbell = new Doorbell(clock, () => this.#askSoon());
    const status = this.#freshness.statusAt(clock.monotonic(), this.#nextVersion());
    this.#view = { memberId: options.memberId, status, servers: null };
  }

  /** What is known now; asks nobody. */
  peek(): MemberListing {
    if (this.#now() >= this.#viewHoldsUntil) this.#settle();
    return this.#view;
  }

  /** What is known; asks behind the answer when that is old, and before it (a bounded time) when cold. */
  async read(): Promise<MemberListing> {
    const now = this.#now();
    if (this.#freshness.isCold(now)) {
      void this.#ask();
      const since = this.#attempt?.started.monotonic ?? now;
      const wait = since + this.#options.config.listingColdWaitMs - now;
      if (this.#attempt && wait > 0) await this.#within(this.#attempt.done, wait);
    } else if (this.#isDue(now)) {
      void this.#ask();
    }
    return this.peek();
  }

  /** Asks now, past any back-off, a look from after the call; answers within 3 s. */
  async refresh(): Promise<MemberListing> {
    this.#next ??= this.#lookFromNowOn();
    await this.#within(this.#next, askMs);
    return this.peek();
  }

  /** Something may have changed: ask soon. */
  doorbell(): void {
    if (this.#watchers > 0) this.#doorbell.ring();
    else this.#dueAt = Number.NEGATIVE_INFINITY;
  }

  /** Keeps it warm until the returned function is called. */
  watch(): () => void {
    this.#watchers++;
    this.#tick();
    let watching = true;
    return () => {
      if (!watching) return;
      watching = false;
      this.#watchers--;
      this.#schedule();
    };
  }

  writeThrough(ref: ServerRef, change: ServerChange): void {
    const key = serverKey(ref);
    const cell = this.#cells.get(key) ?? new ServerCell(ref, this.#rules);
    this.#cells.set(key, cell);
    cell.actedAt = ++this.#acts;
    cell.change(change, this.#bootId, this.#moment());
    this.#pastBackOff = true;
    this.#settle();
    this.#askSoon();
  }

  /** Sockets somebody listens on, and left-over ones. */
  sockets(): { readonly live: number; readonly orphaned: number } {
    const views = this.#view.servers ?? [];
    return {
      live: views.filter((server) => server.pid !== null).length,
      orphaned:
        this.#deadSockets + views.filter((server) => server.reason === 'STALE_SOCKET').length,
    };
  }

  [Symbol.dispose](): void {
    this.#closed.abort();
    this.#watchers = 0;
    this.#cancelTimer();
    this.#cancelRing?.();
    this.#doorbell.stop();
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  #moment(): Moment {
    return { monotonic: this.#now(), wall: this.#options.clock.now() };
  }

  #nextVersion = (): string => `${this.#options.start}-${++this.#versions}`;

  #isDue(now: number): boolean {
    return this.#attempt === undefined && now >= this.#nextAskAt();
  }

  #nextAskAt(): number {
    return this.#freshness.retryAt ?? this.#dueAt;
  }

  // ---- asking ----

  #askSoon(): void {
    if (this.#attempt === undefined) void this.#ask();
    else this.#again = true;
  }

  async #lookFromNowOn(): Promise<void> {
    this.#pastBackOff = true;
    await this.#attempt?.done;
    // Whoever asks from here on wants a later one.
    this.#next = undefined;
    await this.#ask();
  }

  #ask(): Promise<void> {
    if (this.#closed.signal.aborted) return Promise.resolve();
    if (this.#attempt !== undefined) return this.#attempt.done;
    const started = this.#moment();
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const attempt = { started, acts: this.#acts, done };
    this.#attempt = attempt;
    this.#dueAt = started.monotonic + this.#options.config.listingIntervalMs;
    const request = this.#request(started.monotonic);
    this.#pastBackOff = false;
    this.#viewHoldsUntil = Math.min(
      this.#viewHoldsUntil,
      started.monotonic + this.#options.config.listingColdWaitMs,
    );
    this.#schedule();
    void this.#look(attempt, request).then(resolve);
    return done;
  }

  #request(now: number): string {
    const cells = [...this.#cells.values()].filter((cell) => cell.ref.generation === undefined);
    const absent = cells
      .filter((cell) => now - (cell.absentSince ?? now) <= absentMs && cell.isAbsent)
      .sort((one, other) => (other.absentSince ?? 0) - (one.absentSince ?? 0))
      .slice(0, maxAbsent);
    const skipped = cells.filter((cell) => !this.#pastBackOff && cell.freshness.inBackOff(now));
    return snapshotRequest({
      directories: this.#options.config.socketDirs,
      skip: skipped.map((cell) => cell.ref.pathHex),
      extra: [...cells.filter((cell) => !cell.isAbsent), ...absent].map((cell) => cell.ref.pathHex),
    });
  }

  async #look(attempt: Attempt, request: string): Promise<void> {
    const { signal } = this.#closed;
    try {
      const options = { deadlineMs: askMs, pastBackOff: true, signal };
      const answer = await this.#options.helper.ask(request, options);
      if (answer.failure !== null) {
        const { code, detail } = answer.failure;
        throw new HelperError('HELPER_FAILED', `the helper says ${code}: ${detail}`);
      }
      const text = answer.text ?? answer.rows.map((row) => `${row.join('\t')}\n`).join('');
      if (!signal.aborted) this.#apply(parseSnapshot(text), attempt);
    } catch (error) {
      if (!signal.aborted) this.#failed(attempt, error);
    }
    this.#attempt = undefined;
    if (signal.aborted) return;
    this.#settle();
    if (this.#again) {
      this.#again = false;
      void this.#ask();
    }
  }

  #failed(attempt: Attempt, error: unknown): void {
    // Anything else is an answer that this code could not bear: no less a failure to look.
    const reason = error instanceof HelperError ? error.reason : 'MALFORMED_ANSWER';
    const detail = error instanceof Error ? error.message : String(error);
    this.#freshness.fail(reason, detail, this.#moment());
    for (const cell of this.#cells.values()) {
      if (cell.actedAt <= attempt.acts) cell.lookFailed(reason, detail);
    }
  }

  #apply(snapshot: Snapshot, { started, acts }: Attempt): void {
    const { member, columns, directories, servers } = snapshot;
    const ownClientPids = this.#options.ownClientPids();
    const context = { member, columns, ownClientPids, started, ended: this.#moment() };
    this.#bootId = member.bootId;
    this.#deadSockets = snapshot.deadSockets;
    const failing = directories.filter(({ code }) => code !== 'OK' && code !== 'ABSENT');
    const [first] = failing;
    if (first === undefined) this.#freshness.succeed(started);
    else {
      // Where some directories can be read, their servers are not to wait for the others'.
      const pause = failing.length === directories.length ? context.ended : undefined;
      this.#freshness.fail(directoryReason(first), first.detail, pause);
    }

    const seen = new Set<string>();
    const taken = servers.filter(({ code }) => code === 'ETAKEN');
    for (const section of [...taken, ...servers.filter(({ code }) => code !== 'ETAKEN')]) {
      const cell = this.#cellOf(section, member);
      seen.add(serverKey(cell.ref));
      if (cell.actedAt <= acts) cell.apply(section, context);
      if (cell.unasked) this.#again = true;
    }
    for (const [key, cell] of this.#cells) {
      if (seen.has(key) || cell.actedAt > acts) continue;
      const unreadable = failing.find(({ pathHex }) => isIn(cell.ref.pathHex, pathHex));
      if (unreadable === undefined) this.#cells.delete(key);
      else cell.lookFailed(directoryReason(unreadable), unreadable.detail);
    }
  }

  /**
   * The cell of that identity. Whoever lost its path to another is told apart by its generation, and
   * takes its rows along; also back again, when the path is its own once more.
   */
  #cellOf(row: ServerRow, member: MemberRow): ServerCell {
    const { memberId } = this.#options;
    const { pathHex } = row;
    const generation = generationOf(row, member);
    const ref =
      row.code === 'ETAKEN' && generation !== null
        ? { memberId, pathHex, generation }
        : { memberId, pathHex };
    const key = serverKey(ref);
    const present = this.#cells.get(key);
    if (present !== undefined && (generation === null || present.generation === generation)) {
      return present;
    }
    const moved = [...this.#cells.values()].find(
      (cell) =>
        generation !== null && cell.ref.pathHex === pathHex && cell.generation === generation,
    );
    if (moved !== undefined) this.#cells.delete(serverKey(moved.ref));
    const cell = moved ?? present ?? new ServerCell(ref, this.#rules);
    cell.ref = ref;
    this.#cells.set(key, cell);
    return cell;
  }

  // ---- what readers see ----

  /** Makes what readers see from what is known now; a change gets a new version and wakes followers. */
  #settle(): void {
    const now = this.#now();
    const before = this.#view;
    const { listingColdWaitMs } = this.#options.config;
    const overdueAt = (this.#attempt?.started.monotonic ?? now) + listingColdWaitMs;
    const overdue = this.#attempt !== undefined && now >= overdueAt;
    const installed = this.#options.installedVersion();
    const servers = [...this.#cells]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([, cell]) => cell.view(now, overdue, installed, this.#nextVersion));
    const status = this.#freshness.statusAt(now, before.status.version, overdue);
    const after: MemberListing = {
      memberId: before.memberId,
      status,
      servers: status.state === 'UNKNOWN' ? null : servers,
    };
    const same = listingLooksTheSame(before, after);
    this.#view = same ? after : { ...after, status: { ...status, version: this.#nextVersion() } };
    this.#viewHoldsUntil = this.#nextChangeByAge(now, overdue);
    if (this.#attempt !== undefined && !overdue) {
      this.#viewHoldsUntil = Math.min(this.#viewHoldsUntil, overdueAt);
    }
    if (!same) this.#ring(isCosmetic(before, after));
    this.#schedule();
  }

  #nextChangeByAge(now: number, overdue: boolean): number {
    const values = [this.#freshness, ...[...this.#cells.values()].map((cell) => cell.freshness)];
    return Math.min(
      ...values.map((value) => (value.changesAt(now, overdue) ?? Number.POSITIVE_INFINITY) + 1),
    );
  }

  #ring(cosmetic: boolean): void {
    const wait = cosmetic ? this.#rungAt + cosmeticMs - this.#now() : 0;
    if (wait > 0) {
      this.#cancelRing ??= this.#options.clock.after(wait, () => this.#ring(false));
      return;
    }
    this.#cancelRing?.();
    this.#cancelRing = undefined;
    this.#rungAt = this.#now();
    this.#options.changed();
  }

  #tick(): void {
    if (this.#isDue(this.#now())) void this.#ask();
    else this.peek();
    this.#schedule();
  }

  #schedule(): void {
    this.#cancelTimer();
    if (this.#watchers === 0 || this.#closed.signal.aborted) return;
    const ask = this.#attempt === undefined ? this.#nextAskAt() : Number.POSITIVE_INFINITY;
    const at = Math.min(ask, this.#viewHoldsUntil);
    if (at === Number.POSITIVE_INFINITY) return;
    const wait = Math.max(0, at - this.#now());
    this.#cancelTimer = this.#options.clock.after(wait, () => this.#tick());
  }

  #within(promise: Promise<void>, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(ms, resolve);
      void promise.then(() => {
        cancel();
        resolve();
      });
    });
  }
}

function directoryReason({ code }: DirectoryRow): Reason {
  if (code === 'EACCES') return 'EACCES';
  if (code === 'ETOOBIG') return 'OUTPUT_TOO_LARGE';
  return code === 'EDIR' ? 'UNSAFE_DIRECTORY' : 'MALFORMED_ANSWER';
}

/** Whether that socket is directly in that directory; both as hex. */
function isIn(pathHex: string, directoryHex: string): boolean {
  if (!pathHex.startsWith(`${directoryHex}2f`)) return false;
  return !Buffer.from(pathHex.slice(directoryHex.length + 2), 'hex').includes('/');
}
