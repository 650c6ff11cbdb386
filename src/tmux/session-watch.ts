import type { Clock } from '../concurrency/clock.ts';
import { ControlClient, ControlEndedError } from './control-client.ts';
import { LoadMeter } from './load-meter.ts';
import type { ControlConnection } from './member-helper.ts';
import type { Epochs } from './output-cursor.ts';
import { drained, PaneLog, type Snapshot } from './pane-log.ts';
import {
  continueLine,
  messagesLine,
  paneLine,
  pauseAfterLine,
  type RosterPane,
  readRoster,
  resumeOutputLine,
  rosterLine,
  stopOutputLine,
  wasKilled,
  watchServerLine,
} from './pane-roster.ts';
import { takeSnapshot } from './take-snapshot.ts';

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

const rosterDelayMs = 50;
const pollMs = 1_000;
const quietMs = 60_000;
const pingDeadlineMs = 5_000;
const exitStatusMs = 500;
const overloadRestMs = 1_000;
/** For what nobody waits for: a server that was stopped answers it when it runs again. */
const patientMs = 86_400_000;
const none = new Uint8Array();

export class SessionWatch implements AsyncDisposable {
  readonly session: number;
  /** Resolves when nothing comes from this connection any more. */
  readonly ended: Promise<void>;
  readonly #client: ControlClient;
  readonly #options: SessionWatchOptions;
  readonly #logs = new Map<number, PaneLog>();
  readonly #touched = new Set<PaneLog>();
  readonly #load: LoadMeter;
  #rosterWanted = false;
  #cancelTimers: (() => void)[] = [];
  #heardAt: number;
  #shedding = false;
  #over = false;

  constructor(options: SessionWatchOptions) {
    this.session = options.session;
    this.#options = options;
    this.#load = new LoadMeter(options.clock, options.mostLoad ?? 0.6);
    this.#heardAt = options.clock.monotonic();
    this.#client = new ControlClient(
      options.connection,
      {
        output: (pane, data) => this.#output(pane, data),
        notification: (name, rest) => this.#notified(name, rest),
        drained: (ms) => this.#drained(ms),
      },
      options.clock,
    );
    this.ended = this.#client.ended.then(() => this.#detachAll());
    this.#run(this.#begin());
  }

  get pid(): number {
    return this.#client.pid;
  }

  get over(): boolean {
    return this.#over;
  }

  /** The log of a pane, which begins now unless somebody watches it already. */
  log(pane: number): PaneLog {
    const known = this.#logs.get(pane);
    if (known !== undefined) return known;
    const { logBytes, epochs, clock } = this.#options;
    const log = new PaneLog(pane, logBytes, epochs, clock);
    this.#logs.set(pane, log);
    if (this.#over) log.detach();
    else this.#wantRoster(0);
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
    if (taken === undefined) this.#wantRoster(0);
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
      this.#client.ask(watchServerLine, patientMs),
    ]);
    // Without the subscription nothing tells that a pane died or was respawned.
    if (!subscribed.ok) this.#every(pollMs, async () => this.#wantRoster(0));
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
    if (name === 'pause') {
      const pane = /^%(\d+)$/.exec(rest)?.[1];
      if (pane !== undefined) this.#run(this.#resume(Number(pane)));
      return;
    }
    if (
      !/^(?:layout-change|subscription-changed|sessions-changed|unlinked-|window-|session-|client-)/.test(
        name,
      )
    )
      return;
    this.#options.doorbell();
    if (
      /^(?:layout-change|window-close|unlinked-window-close|window-add|subscription-changed)$/.test(
        name,
      )
    ) {
      this.#wantRoster(rosterDelayMs);
    }
  }

  /** tmux dropped what it had for that pane. */
  async #resume(pane: number): Promise<void> {
    const continued = this.#client.ask(continueLine(pane), patientMs);
    // After that line is written, so that snapshots come behind it; before any later output is read.
    this.#logs.get(pane)?.break('TMUX_PAUSED');
    await continued;
  }

  /** We take too much of the process's time: rest, and begin with new screens. */
  async #shed(): Promise<void> {
    this.#shedding = true;
    for (const log of this.#logs.values()) log.flush();
    await this.#client.ask(stopOutputLine, patientMs);
    await new Promise<void>((resolve) => this.#after(overloadRestMs, resolve));
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

  #wantRoster(delayMs: number): void {
    if (this.#rosterWanted || this.#over) return;
    this.#rosterWanted = true;
    this.#after(delayMs, () => {
      this.#rosterWanted = false;
      this.#run(this.#readRoster());
    });
  }

  async #readRoster(): Promise<void> {
    const roster = readRoster(await this.#client.ask(rosterLine(this.session), patientMs));
    if (roster === undefined) return;
    for (const log of [...this.#logs.values()]) {
      const now = roster.get(log.pane);
      if (now === undefined) await this.#missing(log);
      else if (now.dead) {
        // Right after a program's end older versions do not know yet how it ended.
        const told = now.exitStatus !== null || now.exitSignal !== null;
        if (told || log.isDeadFor(exitStatusMs)) await this.#died(log, now);
        else this.#wantRoster(rosterDelayMs);
      } else {
        log.sized(now.columns, now.rows);
        log.runs(now.pid);
      }
    }
  }

  /** Dead under remain-on-exit. tmux drops output that it had not passed on yet: its screen has it. */
  async #died(log: PaneLog, { exitStatus, exitSignal }: RosterPane): Promise<void> {
    const before = log.snapshot;
    log.snapshot = undefined;
    const last = await takeSnapshot(
      this.#client,
      log,
      log.bytes.end,
      this.#options.clock,
      patientMs,
    );
    const same =
      before?.offset === last?.offset &&
      Buffer.compare(before?.event.data ?? none, last?.event.data ?? none) === 0;
    log.close({ reason: 'EXITED', exitStatus, exitSignal }, same ? undefined : last);
    this.forget(log);
  }

  async #missing(log: PaneLog): Promise<void> {
    const ownName = `client-${this.#client.pid}`;
    const [there, killed] = await Promise.all([
      this.#client.ask(paneLine(log.pane), patientMs),
      this.#client.bracket(
        [messagesLine],
        ([messages]) => (messages?.ok ? wasKilled(messages, log.pane, ownName) : false),
        patientMs,
      ),
    ]);
    this.forget(log);
    if (there.ok && there.lines[0]?.toString('latin1') === `%${log.pane}`) log.detach();
    else
      log.close({ reason: killed ? 'PANE_KILLED' : 'EXITED', exitStatus: null, exitSignal: null });
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
    for (const cancel of this.#cancelTimers) cancel();
    for (const log of this.#logs.values()) log.detach();
    this.#logs.clear();
  }

  #after(ms: number, ring: () => void): void {
    const cancel = this.#options.clock.after(ms, () => {
      this.#cancelTimers = this.#cancelTimers.filter((other) => other !== cancel);
      if (!this.#over) ring();
    });
    this.#cancelTimers.push(cancel);
  }

  #every(ms: number, work: () => Promise<void>): void {
    this.#after(ms, () => {
      this.#run(work().then(() => this.#every(ms, work)));
    });
  }
}
