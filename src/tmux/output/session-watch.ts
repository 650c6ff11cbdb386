import type { Clock } from '../../concurrency/clock.ts';
import type { ControlConnection } from '../member-helper.ts';
import { isAtLeast } from '../tmux-version.ts';
import { ControlClient, ControlEndedError } from './control-client.ts';
import type { Epochs } from './output-cursor.ts';
import { Overload } from './overload.ts';
import { drained, PaneLog, type Snapshot } from './pane-log.ts';
import {
  continueLine,
  pauseAfterLine,
  pauseLine,
  watchServerLine,
  watchSessionLine,
} from './pane-roster.ts';
import { patientMs, RosterKeeper } from './roster-keeper.ts';
import { takeSnapshot } from './take-snapshot.ts';
import { Timers } from './timers.ts';

/**
 * One control client on one session, shared by everybody who watches a pane of it. It turns what
 * tmux says into logs, one for each watched pane; readers never touch the connection.
 *
 * Notifications are hints that something changed: what changed is asked (the roster), since
 * not every version tells everything, and names in notifications are a member's to forge.
 */
export interface SessionWatchOptions {
  readonly session: number;
  readonly connection: ControlConnection;
  readonly clock: Clock;
  readonly epochs: Epochs;
  readonly logBytes: number;
  /** The listing may have changed. */
  readonly doorbell: () => void;
  /** Whether the server answers anybody now. */
  readonly answersOthers: () => Promise<boolean>;
  /** Share of the process's time that this connection may take for seconds on end. */
  readonly mostLoad?: number;
}

const ofListing =
  /^(?:layout-change|pane-mode-changed|subscription-changed|sessions-changed|unlinked-|window-|session-|client-)/;
const ofRoster = /^(?:layout-change|window-close|unlinked-window-close|window-add)$/;
const rosterDelayMs = 50;
const pollMs = 1_000;
const quietMs = 60_000;
const pingDeadlineMs = 5_000;
const tickMs = 2_000;
const stillMs = 3_000;

export class SessionWatch implements AsyncDisposable {
  readonly session: number;
  /** Resolves when nothing comes from this connection any more. */
  readonly ended: Promise<void>;
  readonly #client: ControlClient;
  readonly #options: SessionWatchOptions;
  readonly #logs = new Map<number, PaneLog>();
  /** Logs that were added to and not published yet. */
  readonly #touched: PaneLog[] = [];
  readonly #overload: Overload;
  readonly #timers: Timers;
  readonly #roster: RosterKeeper;
  #heardAt: number;
  /** Every pane of the session that wrote anything lately, watched or not. */
  readonly #talking = new Set<number>();
  /** Panes that are paused, since more comes than we can take. */
  readonly #resting = new Set<number>();
  #shedding = false;
  #tickedAt: number;
  #over = false;
  #hearsServer = false;

  constructor(options: SessionWatchOptions) {
    this.session = options.session;
    this.#options = options;
    this.#overload = new Overload(options.clock, options.mostLoad ?? 0.6);
    this.#heardAt = options.clock.monotonic();
    this.#tickedAt = this.#heardAt;
    this.#timers = new Timers(options.clock);
    this.#client = new ControlClient(
      options.connection,
      {
        output: (pane, data) => this.#output(pane, data),
        notification: (name, rest) => this.#notified(name, rest),
        drained: (bytes, ms) => this.#drained(bytes, ms),
      },
      options.clock,
    );
    this.#roster = new RosterKeeper({
      client: this.#client,
      session: options.session,
      clock: options.clock,
      timers: this.#timers,
      logs: () => [...this.#logs.values()],
      forget: (log) => this.forget(log),
      run: (work) => this.#run(work),
    });
    this.ended = this.#client.ended.then(() => this.#detachAll());
    this.#run(this.#begin());
  }

  get pid(): number {
    return this.#client.pid;
  }

  get over(): boolean {
    return this.#over;
  }

  /** Whether changes anywhere in the server ring the doorbell, not those of this session alone. */
  get hearsServer(): boolean {
    return this.#hearsServer;
  }

  hearServer(): void {
    this.#hearsServer = true;
    // An error before tmux 3.2: its notifications have to do.
    this.#run(this.#client.ask(watchServerLine, patientMs).then(() => {}));
  }

  /** The log of a pane, which begins now unless somebody watches it already. */
  log(pane: number): PaneLog {
    const known = this.#logs.get(pane);
    if (known !== undefined) return known;
    const { logBytes, epochs, clock } = this.#options;
    const log = new PaneLog(pane, logBytes, epochs, clock);
    this.#logs.set(pane, log);
    if (this.#over) log.detach();
    else this.#roster.want(0);
    return log;
  }

  forget(log: PaneLog): void {
    if (this.#logs.get(log.pane) === log) this.#logs.delete(log.pane);
  }

  /**
   * A snapshot that is not older than the output before `least`; undefined when tmux says that
   * there is no such pane. @throws ControlEndedError, ControlTimeoutError
   */
  async snapshot(log: PaneLog, least: number): Promise<Snapshot | undefined> {
    const taken = await takeSnapshot(this.#client, log, least, this.#options.clock);
    if (taken === undefined) this.#roster.want(0);
    return taken;
  }

  /** Ends every stream; the connection is closed by disposing. */
  drain(): void {
    for (const log of this.#logs.values()) log.close(drained);
  }

  /** Leaves the session. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#detachAll();
    await this.#client[Symbol.asyncDispose]();
  }

  async #begin(): Promise<void> {
    // Two errors before tmux 3.2, which has neither.
    const [, subscribed] = await Promise.all([
      this.#client.ask(pauseAfterLine, patientMs),
      this.#client.ask(watchSessionLine, patientMs),
    ]);
    // Without the subscription nothing tells that a pane died or was respawned.
    if (!subscribed.ok) this.#every(pollMs, async () => this.#roster.want(0));
    this.#every(tickMs, () => this.#tick());
    this.#every(quietMs, () => this.#listen());
  }

  #output(pane: number, data: Uint8Array): void {
    if (this.#resting.has(pane)) return;
    if (this.#shedding) {
      this.#rest(pane);
      return;
    }
    this.#talking.add(pane);
    const log = this.#logs.get(pane);
    if (log === undefined) return;
    log.append(data);
    if (!this.#touched.includes(log)) this.#touched.push(log);
  }

  #drained(bytes: number, ms: number): void {
    this.#heardAt = this.#options.clock.monotonic();
    for (const log of this.#touched) log.publish();
    this.#touched.length = 0;
    if (this.#overload.read(bytes, ms) && !this.#shedding) this.#run(this.#shed());
  }

  #notified(name: string, rest: string): void {
    if (name === 'session-changed') {
      // `detach-on-destroy off`, or somebody's switch-client: from here on it is another session's output.
      const session = /^\$(\d+) /.exec(rest)?.[1];
      if (session !== undefined && Number(session) !== this.session) this.#leave();
      return;
    }
    if (name === 'pause' || name === 'continue') {
      const pane = Number(/^%(\d{1,10})$/.exec(rest)?.[1]);
      // tmux dropped what it had for that pane; nothing comes before it goes on.
      if (this.#resting.has(pane)) {
        if (name === 'continue') this.#rested(pane);
      } else if (name === 'continue') this.#logs.get(pane)?.break('TMUX_PAUSED');
      else if (Number.isSafeInteger(pane)) this.#run(this.#goOn(pane));
      return;
    }
    if (!ofListing.test(name)) return;
    this.#options.doorbell();
    const ofSession = name === 'subscription-changed' && rest.startsWith('session ');
    if (ofSession || ofRoster.test(name)) this.#roster.want(rosterDelayMs);
  }

  /**
   * Where this process stood still, tmux may have paused a pane without a word: it keeps the
   * notification until it has something else to write (seen on all from 3.3a on). Where nothing
   * was paused, going on changes nothing.
   */
  async #tick(): Promise<void> {
    const now = this.#options.clock.monotonic();
    const stoodStill = now - this.#tickedAt - tickMs >= stillMs;
    this.#tickedAt = now;
    // Who says something only now is paused by that: a quiet pane needs no gap.
    this.#talking.clear();
    if (stoodStill && !this.#shedding)
      await Promise.all([...this.#logs.keys()].map((pane) => this.#goOn(pane)));
  }

  /** Answered by `%continue`, before any later output, where the pane was paused. */
  async #goOn(pane: number): Promise<void> {
    await this.#client.ask(continueLine(pane), patientMs);
  }

  /**
   * Pauses every pane that says anything, for a while: then nothing waits for us, least of all the
   * member's programs. (`no-output` would do as well, but up to 3.5a it is the last thing that a client
   * hears for which output waits.)
   */
  async #shed(): Promise<void> {
    // Before, tmux keeps all that waits, and every answer behind it: a new client has none of that.
    if (!isAtLeast(this.#client.version, 3, 2)) return this.#leave();
    this.#shedding = true;
    for (const log of this.#logs.values()) log.flush();
    for (const pane of this.#talking) this.#rest(pane);
    const restMs = this.#overload.restMs();
    await new Promise<void>((resolve) => this.#timers.after(restMs, resolve));
    this.#shedding = false;
    const resting = [...this.#resting];
    await Promise.all(resting.map((pane) => this.#goOn(pane)));
    // Without a `%continue`: it is gone.
    for (const pane of resting) this.#rested(pane);
    this.#overload.rested();
  }

  #rest(pane: number): void {
    this.#resting.add(pane);
    this.#run(this.#client.ask(pauseLine(pane), patientMs).then(() => {}));
  }

  #rested(pane: number): void {
    if (this.#resting.delete(pane)) this.#logs.get(pane)?.break('OVERLOAD');
  }

  /**
   * A stopped or busy server answers nothing and loses nothing. But where others get answers and
   * this connection gets none, it is the connection that is stuck.
   */
  async #listen(): Promise<void> {
    if (this.#options.clock.monotonic() - this.#heardAt < quietMs) return;
    if (await this.#client.ping(pingDeadlineMs)) return;
    if (await this.#options.answersOthers()) this.#leave();
  }

  /** What happens behind the readers' backs ends with the connection, which they see by their logs. */
  #run(work: Promise<void>): void {
    work.catch((error: unknown) => {
      if (!(error instanceof ControlEndedError)) this.#leave();
    });
  }

  #leave(): void {
    this.#detachAll();
    void this.#client[Symbol.asyncDispose]();
  }

  #detachAll(): void {
    if (this.#over) return;
    this.#over = true;
    this.#timers.stop();
    for (const log of this.#logs.values()) log.detach();
    this.#logs.clear();
  }

  #every(ms: number, work: () => Promise<void>): void {
    this.#timers.after(ms, () => this.#run(work().then(() => this.#every(ms, work))));
  }
}
