import { type Clock, sleep } from '../../concurrency/clock.ts';
import type { ControlConnection } from '../member-helper.ts';
import type { BlockAnswer } from './control-block.ts';
import { ControlClient, ControlEndedError } from './control-client.ts';
import type { ControlLine } from './control-line.ts';
import { LoadMeter } from './load-meter.ts';
import type { Epochs } from './output-cursor.ts';
import { drained, PaneLog, type Snapshot } from './pane-log.ts';
import {
  continueLine,
  pauseAfterLine,
  resumeOutputLine,
  stopOutputLine,
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
const overloadRestMs = 1_000;

export class SessionWatch implements AsyncDisposable {
  readonly session: number;
  /** Resolves when nothing comes from this connection any more. */
  readonly ended: Promise<void>;
  readonly #client: ControlClient;
  readonly #options: SessionWatchOptions;
  readonly #logs = new Map<number, PaneLog>();
  readonly #touched = new Set<PaneLog>();
  readonly #load: LoadMeter;
  readonly #timers: Timers;
  readonly #roster: RosterKeeper;
  #heardAt: number;
  #shedding = false;
  #tickedAt: number;
  #over = false;
  #hearsServer = false;

  constructor(options: SessionWatchOptions) {
    this.session = options.session;
    this.#options = options;
    this.#load = new LoadMeter(options.clock, options.mostLoad ?? 0.6);
    this.#heardAt = options.clock.monotonic();
    this.#tickedAt = this.#heardAt;
    this.#timers = new Timers(options.clock);
    this.#client = new ControlClient(
      options.connection,
      {
        output: (pane, data) => this.#output(pane, data),
        notification: (name, rest) => this.#notified(name, rest),
        drained: (ms) => this.#drained(ms),
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
    this.#run(this.#askAttached(watchServerLine).then(() => {}));
  }

  /** tmux reads commands before it has attached us, and then says that there is no client to set this for. */
  async #askAttached(line: ControlLine): Promise<BlockAnswer> {
    for (let tries = 0; ; tries += 1) {
      const answer = await this.#client.ask(line, patientMs);
      if (tries === 40 || answer.ok || String(answer.lines[0]) !== 'no current client')
        return answer;
      await sleep(50, this.#options.clock);
    }
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
      this.#askAttached(pauseAfterLine),
      this.#askAttached(watchSessionLine),
    ]);
    // Without the subscription nothing tells that a pane died or was respawned.
    if (!subscribed.ok) this.#every(pollMs, async () => this.#roster.want(0));
    this.#every(tickMs, () => this.#tick());
    this.#every(quietMs, () => this.#listen());
  }

  #output(pane: number, data: Uint8Array): void {
    const log = this.#logs.get(pane);
    if (log === undefined || this.#shedding) return;
    log.append(data);
    this.#touched.add(log);
  }

  #drained(ms: number): void {
    this.#heardAt = this.#options.clock.monotonic();
    for (const log of this.#touched) log.publish();
    this.#touched.clear();
    if (this.#load.add(ms) && !this.#shedding) this.#run(this.#shed());
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
      if (name === 'continue') this.#logs.get(pane)?.break('TMUX_PAUSED');
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
    if (stoodStill) await Promise.all([...this.#logs.keys()].map((pane) => this.#goOn(pane)));
  }

  /** Answered by `%continue`, before any later output, where the pane was paused. */
  async #goOn(pane: number): Promise<void> {
    await this.#client.ask(continueLine(pane), patientMs);
  }

  /** We take too much of the process's time: rest, and begin with new screens. */
  async #shed(): Promise<void> {
    this.#shedding = true;
    for (const log of this.#logs.values()) log.flush();
    await this.#client.ask(stopOutputLine, patientMs);
    await new Promise<void>((resolve) => this.#timers.after(overloadRestMs, resolve));
    await this.#client.ask(resumeOutputLine, patientMs);
    this.#shedding = false;
    this.#load.reset();
    for (const log of this.#logs.values()) log.break('OVERLOAD');
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
