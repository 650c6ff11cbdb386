import type { Clock } from '../../concurrency/clock.ts';
import type { ControlClient } from './control-client.ts';
import type { PaneLog } from './pane-log.ts';
import {
  messagesLine,
  paneLine,
  type RosterPane,
  readRoster,
  rosterLine,
  wasKilled,
} from './pane-roster.ts';
import { takeSnapshot } from './take-snapshot.ts';
import type { Timers } from './timers.ts';

/** For what nobody waits for: a server that was stopped answers it when it runs again. */
export const patientMs = 86_400_000;
const againMs = 50;
const exitStatusMs = 1_000;
const none = new Uint8Array();

export interface RosterKeeperOptions {
  readonly client: ControlClient;
  readonly session: number;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Those that are watched now. */
  readonly logs: () => readonly PaneLog[];
  readonly forget: (log: PaneLog) => void;
  /** Takes care of work's failure. */
  readonly run: (work: Promise<void>) => void;
}

/**
 * Tells each log what became of its pane: resized, respawned, dead, gone, or moved elsewhere. Asked
 * whenever something may have changed, however often that is said meanwhile.
 */
export class RosterKeeper {
  readonly #options: RosterKeeperOptions;
  #wanted = false;

  constructor(options: RosterKeeperOptions) {
    this.#options = options;
  }

  want(delayMs: number): void {
    if (this.#wanted) return;
    this.#wanted = true;
    this.#options.timers.after(delayMs, () => {
      this.#wanted = false;
      this.#options.run(this.#look());
    });
  }

  async #look(): Promise<void> {
    const roster = await this.#roster();
    if (roster === undefined) return;
    for (const log of this.#options.logs()) {
      const now = roster.get(log.pane);
      if (now === undefined) await this.#missing(log);
      else if (now.dead) {
        // Right after a program's end older versions do not know yet how it ended.
        const told = now.exitStatus !== null || now.exitSignal !== null;
        if (told || log.isDeadFor(exitStatusMs)) await this.#died(log, now);
        else this.want(againMs);
      } else {
        log.sized(now.columns, now.rows);
        log.runs(now.pid);
      }
    }
  }

  async #roster(): Promise<ReadonlyMap<number, RosterPane> | undefined> {
    const { client, session } = this.#options;
    return readRoster(await client.ask(rosterLine(session), patientMs));
  }

  /** Dead under remain-on-exit. tmux drops output that it had not passed on yet: its screen has it. */
  async #died(log: PaneLog, { exitStatus, exitSignal }: RosterPane): Promise<void> {
    const { client, clock, forget } = this.#options;
    const before = log.snapshot;
    log.snapshot = undefined;
    const last = await takeSnapshot(client, log, log.bytes.end, clock, patientMs);
    const same =
      before?.offset === last?.offset &&
      Buffer.compare(before?.event.data ?? none, last?.event.data ?? none) === 0;
    log.close({ reason: 'EXITED', exitStatus, exitSignal }, same ? undefined : last);
    forget(log);
  }

  async #missing(log: PaneLog): Promise<void> {
    const { client, forget } = this.#options;
    const ownName = `client-${client.pid}`;
    const [killed, there] = await Promise.all([
      client.bracket(
        [messagesLine],
        ([messages]) => (messages?.ok ? wasKilled(messages, log.pane, ownName) : false),
        patientMs,
      ),
      client.ask(paneLine(log.pane), patientMs),
    ]);
    if (there.ok && there.lines[0]?.toString('latin1') === `%${log.pane}`) {
      // It may have come into the session only after the roster.
      if ((await this.#roster())?.has(log.pane)) return;
      log.detach();
    } else {
      const reason = killed ? 'PANE_KILLED' : 'EXITED';
      log.close({ reason, exitStatus: null, exitSignal: null });
    }
    forget(log);
  }
}
