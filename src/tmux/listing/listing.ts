import type { Clock } from '../../concurrency/clock.ts';
import { Turn } from '../../concurrency/turn.ts';
import type { Config } from '../../config.ts';
import type { Lines } from '../helper/lines.ts';
import { HelperError, type MemberHelper } from '../member-helper.ts';
import type { ServerChange } from '../member-tmux.ts';
import type {
  AgentState,
  MemberListing,
  PaneRef,
  ServerRef,
  ServerView,
  SessionView,
} from '../model.ts';
import { Doorbell } from './doorbell.ts';
import type { Edition } from './edition.ts';
import { Freshness, type Moment } from './freshness.ts';
import { ListingView } from './listing-view.ts';
import { parseSnapshot } from './rows.ts';
import { directoryReason, isFailing, ServerCells } from './server-cells.ts';
import { paneParser } from './session-rows.ts';
import { WallClock } from './wall-clock.ts';

/**
 * One member's listing: an asynchronous cache, stale while it revalidates.
 *
 * - A reader gets what is known, at once; what is old is asked again behind the answer. Only a cold
 *   value (never seen, or old because nobody asked) makes its reader wait, and for a bounded time.
 *   After a read it is kept warm for as long as it takes to get cold: the next reader, some seconds
 *   later, is not to be told of then.
 * - One snapshot is in flight at a time, whoever asks. It tells nothing of a server on which we
 *   acted after it had begun.
 * - The member has a freshness (could we look?) and each server's rows have their own (did it
 *   answer?). A failing server is left out of snapshots until its pause is over; a failing member
 *   is not asked until its own is. `refresh` asks at once.
 * - What readers see changes by age alone too, and never for figures and times alone.
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
  /** Of all listings: told whenever this one may be another one than before. */
  readonly edition: Edition;
  readonly changed: () => void;
}

interface Attempt {
  readonly started: Moment;
  /** How many acts of ours had ended when it began. */
  readonly acts: number;
  readonly done: Promise<void>;
}

const askMs = 3_000;
/** For so long the event loop is held by what a look tells, or as long as one server's rows take. */
const turnMs = 1;

export class Listing implements Disposable {
  readonly #options: ListingOptions;
  readonly #freshness: Freshness;
  readonly #servers: ServerCells;
  readonly #view: ListingView;
  readonly #doorbell: Doorbell;
  readonly #wallClock = new WallClock();
  readonly #closed = new AbortController();
  #attempt: Attempt | undefined;
  /** The look that everybody shares who wants one from after now. */
  #next: Promise<void> | undefined;
  /** Ask again as soon as the attempt in flight is over. */
  #again = false;
  /** The next attempt leaves no server out. */
  #pastBackOff = false;
  #dueAt = Number.NEGATIVE_INFINITY;
  #deadSockets = 0;
  #watchers = 0;
  #warmUntil = Number.NEGATIVE_INFINITY;
  #viewHoldsUntil = Number.POSITIVE_INFINITY;
  #cancelTimer: () => void = () => {};

  constructor(options: ListingOptions) {
    this.#options = options;
    const { memberId, config, clock, start, changed } = options;
    const freshMs = config.listingIntervalMs + config.listingFreshGraceMs;
    const rules = {
      freshMs,
      maxAgeMs: Math.max(config.listingMaxAgeMs, freshMs),
      backOff: { firstMs: config.listingBackOffMs, maxMs: config.listingBackOffMaxMs },
    };
    this.#freshness = new Freshness(rules);
    this.#servers = new ServerCells(memberId, { ...rules, idleAfterMs: config.idleAfterMs });
    const status = this.#freshness.statusAt(clock.monotonic(), '');
    this.#view = new ListingView(memberId, status, start, clock, changed);
    this.#doorbell = new Doorbell(clock, () => this.#rung());
  }

  /** What is known now; asks nobody. */
  peek(): MemberListing {
    if (this.#now() >= this.#viewHoldsUntil) this.#settle();
    return this.#view.current;
  }

  /** What is known; asks behind the answer when that is old, and before it (a bounded time) when cold. */
  async read(): Promise<MemberListing> {
    const now = this.#now();
    // Who reads once reads again: until it would be cold, the next answer is not an old one.
    this.#warmUntil = now + this.#options.config.listingMaxAgeMs;
    if (this.#freshness.isCold(now)) {
      void this.#ask();
      const since = this.#attempt?.started.monotonic ?? now;
      const wait = since + this.#options.config.listingColdWaitMs - now;
      if (this.#attempt && wait > 0) await this.#within(this.#attempt.done, wait);
    } else if (this.#isDue(now)) {
      void this.#ask();
    } else {
      this.#schedule();
    }
    return this.peek();
  }

  /** Asks now, past any back-off, a look from after the call; answers within 3 s. */
  async refresh(): Promise<MemberListing> {
    this.#next ??= this.#lookFromNowOn();
    await this.#within(this.#next, askMs);
    return this.peek();
  }

  /** Until when what `peek` gives holds. */
  tellEdition(): void {
    this.#options.edition.holds(this.#viewHoldsUntil);
  }

  /** Something may have changed: ask soon, or when the next reader comes. */
  doorbell(): void {
    this.#doorbell.ring();
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
    this.#servers.change(ref, change, this.#moment());
    this.#pastBackOff = true;
    this.#settle();
    this.#askSoon();
  }

  /** A hook of the member's told what the agent in a pane does. */
  report(pane: PaneRef, state: AgentState): void {
    this.#servers.report(pane, state, this.#options.clock.now());
    this.#settle();
  }

  /** What that life of the server held when it last answered, however long ago. Null: it never did. */
  lastSessions(server: ServerView): readonly SessionView[] | null {
    return this.#servers.lastSessions(server);
  }

  /** Sockets somebody listens on, and left-over ones. */
  sockets(): { readonly live: number; readonly orphaned: number } {
    const views = this.#view.current.servers ?? [];
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
    this.#view.stop();
    this.#doorbell.stop();
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  #moment(): Moment {
    return { monotonic: this.#now(), wall: this.#options.clock.now() };
  }

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

  #rung(): void {
    if (this.#freshness.inBackOff(this.#now())) return;
    if (this.#watchers > 0) this.#askSoon();
    else this.#dueAt = Number.NEGATIVE_INFINITY;
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
    const attempt = { started, acts: this.#servers.acts, done };
    this.#attempt = attempt;
    this.#dueAt = started.monotonic + this.#options.config.listingIntervalMs;
    const { socketDirs, agents } = this.#options.config;
    const names = [...agents.keys()];
    const everyone = this.#pastBackOff;
    const request = this.#servers.request(socketDirs, names, started.monotonic, everyone);
    this.#pastBackOff = false;
    const overdueAt = started.monotonic + this.#options.config.listingColdWaitMs;
    this.#viewHoldsUntil = Math.min(this.#viewHoldsUntil, overdueAt);
    this.tellEdition();
    this.#schedule();
    void this.#look(attempt, request).then(resolve);
    return done;
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
      if (!signal.aborted) await this.#apply(answer.lines, attempt);
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
    this.#servers.lookFailed(reason, detail, attempt.acts);
  }

  async #apply(lines: Lines, { started, acts }: Attempt): Promise<void> {
    const turn = new Turn(this.#options.clock, turnMs);
    const snapshot = parseSnapshot(lines);
    await turn.over();
    const { member, columns, directories } = snapshot;
    const ownClientPids = this.#options.ownClientPids();
    const agentKinds = this.#options.config.agents;
    const context = {
      member,
      columns,
      agentKinds,
      paneParser: paneParser(columns, agentKinds),
      ownClientPids,
      started,
      steadyMs: this.#wallClock.steadyMs(started),
      ended: this.#moment(),
    };
    const { signal } = this.#closed;
    const unasked = await this.#servers.apply(snapshot, context, acts, turn, signal);
    if (signal.aborted) return;
    if (unasked) this.#again = true;
    this.#deadSockets = snapshot.deadSockets;
    const failing = directories.filter(isFailing);
    const [first] = failing;
    if (first === undefined) this.#freshness.succeed(started);
    else {
      // Where some directories can be read, their servers are not to wait for the others'.
      const pause = failing.length === directories.length ? context.ended : undefined;
      this.#freshness.fail(directoryReason(first), first.detail, pause);
    }
    await turn.over();
  }

  // ---- what readers see ----

  #settle(): void {
    const now = this.#now();
    const overdueAt =
      (this.#attempt?.started.monotonic ?? now) + this.#options.config.listingColdWaitMs;
    const overdue = this.#attempt !== undefined && now >= overdueAt;
    const { nextVersion } = this.#view;
    const installed = this.#options.installedVersion();
    const servers = this.#servers.views(now, overdue, installed, nextVersion);
    const status = this.#freshness.statusAt(now, '', overdue);
    this.#viewHoldsUntil =
      1 +
      Math.min(
        this.#freshness.changesAt(now, overdue) ?? Number.POSITIVE_INFINITY,
        this.#servers.changesAt(now, overdue),
      );
    if (this.#attempt !== undefined && !overdue) {
      this.#viewHoldsUntil = Math.min(this.#viewHoldsUntil, overdueAt);
    }
    this.#view.show(status, status.state === 'UNKNOWN' ? null : servers);
    this.#options.edition.turn();
    this.tellEdition();
    this.#schedule();
  }

  #tick(): void {
    if (this.#isDue(this.#now())) void this.#ask();
    else this.peek();
    this.#schedule();
  }

  #schedule(): void {
    this.#cancelTimer();
    if (this.#closed.signal.aborted) return;
    const ask = this.#attempt === undefined ? this.#nextAskAt() : Number.POSITIVE_INFINITY;
    const followed = this.#watchers > 0;
    const at = followed ? Math.min(ask, this.#viewHoldsUntil) : ask;
    if (at === Number.POSITIVE_INFINITY || (!followed && at >= this.#warmUntil)) return;
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
