import { helperCodeError, helperError } from '../helper/helper-answer-error.ts';
import { HelperError, serverWords } from '../member-helper.ts';
import type { LocatedPane, MemberTmux } from '../member-tmux.ts';
import type { PaneRef } from '../model.ts';
import type { Epochs, OutputCursor } from './output-cursor.ts';
import type { PaneLog, Snapshot } from './pane-log.ts';
import { SessionWatch } from './session-watch.ts';
import { untilAborted } from './until-aborted.ts';

/** A reader's place at a pane's log; giving it back is what lets the connection end. */
export interface Seat extends Disposable {
  readonly session: number;
  readonly log: PaneLog;
  /** @throws ControlEndedError, ControlTimeoutError */
  snapshot(least: number): Promise<Snapshot | undefined>;
}

interface Entry {
  readonly abort: AbortController;
  readonly opening: Promise<SessionWatch>;
  /** Which life of which server. */
  readonly server: string;
  watch: SessionWatch | undefined;
  readers: number;
  cancelLinger: (() => void) | undefined;
}

/** A log for as long as somebody may come back to it, also when nothing is added to it any more. */
interface Held {
  readonly entry: Entry;
  readonly watch: SessionWatch;
  readonly log: PaneLog;
  readonly pane: string;
  readers: number;
  cancelLinger: (() => void) | undefined;
}

/**
 * The control clients of one member: at most one for each session, opened for the first reader and
 * closed `lingerMs` after the last. An opening that nobody waits for any more is called off.
 *
 * Likewise each log is held for `lingerMs` after its last reader, whatever became of its pane or its
 * connection: who comes back with a cursor of it reads on to its end, and is told that end.
 */
export class SessionWatches {
  readonly #tmux: MemberTmux;
  readonly #epochs: Epochs;
  readonly #mostLoad: number | undefined;
  readonly #entries = new Map<string, Entry>();
  readonly #held = new Set<Held>();
  readonly #closing = new Set<Promise<void>>();

  constructor(tmux: MemberTmux, epochs: Epochs, mostLoad?: number) {
    this.#tmux = tmux;
    this.#epochs = epochs;
    this.#mostLoad = mostLoad;
  }

  /** Of the control clients that live now. */
  pids(): ReadonlySet<number> {
    const pids = [...this.#entries.values()].flatMap(({ watch }) => (watch ? [watch.pid] : []));
    return new Set(pids);
  }

  /**
   * Undefined where attaching would not be harmless: leaving would end the session or the server.
   * @throws StaleGenerationError, NotFoundError, ListingUnknownError, the signal's reason
   */
  async sit(pane: PaneRef, located: LocatedPane, signal: AbortSignal): Promise<Seat | undefined> {
    const entry = this.#entryFor(pane, located);
    this.#enter(entry);
    try {
      const watch = await untilAborted(entry.opening, signal);
      return this.#seat(this.#hold(entry, watch, pane));
    } catch (error) {
      this.#left(entry);
      if (error instanceof NotHarmlessError) return undefined;
      throw error instanceof HelperError ? helperError(error, pane) : error;
    }
  }

  /** A seat at the log that still holds what comes after the cursor, or knows how far it got. */
  resume(pane: PaneRef, cursor: OutputCursor): Seat | undefined {
    if (cursor.run !== this.#epochs.run) return undefined;
    const key = paneKey(pane);
    for (const held of this.#held) {
      if (held.pane !== key || held.log.bytes.epoch !== cursor.epoch) continue;
      this.#enter(held.entry);
      return this.#seat(held);
    }
    return undefined;
  }

  /** Ends every stream and closes every connection. */
  async drain(): Promise<void> {
    for (const { watch } of this.#entries.values()) watch?.drain();
    for (const entry of this.#entries.values()) this.#close(entry);
    await Promise.all(this.#closing);
  }

  #entryFor(pane: PaneRef, located: LocatedPane): Entry {
    const server = `${pane.pathHex}/${pane.generation}`;
    const key = (session: number) => `${server}/${session}`;
    for (const session of located.sessions) {
      const known = this.#entries.get(key(session));
      if (known !== undefined && !known.watch?.over && !known.abort.signal.aborted) return known;
    }
    const { session } = located.session;
    const abort = new AbortController();
    const entry: Entry = {
      abort,
      opening: this.#open(pane, located, abort.signal),
      server,
      watch: undefined,
      readers: 0,
      cancelLinger: undefined,
    };
    this.#entries.set(key(session), entry);
    const gone = () => {
      if (this.#entries.get(key(session)) === entry) this.#entries.delete(key(session));
      this.#hearServer(server);
    };
    entry.opening.then((watch) => {
      entry.watch = watch;
      void watch.ended.then(gone);
      if (entry.readers === 0) this.#close(entry);
      this.#hearServer(server);
    }, gone);
    return entry;
  }

  async #open(pane: PaneRef, located: LocatedPane, signal: AbortSignal): Promise<SessionWatch> {
    const { helper, clock, config } = this.#tmux;
    const { session } = located.session;
    const words = `${serverWords(located.target)} session=${session}`;
    const { rows, failure } = await helper.ask(`display ${words}`, { signal });
    if (failure !== null) throw helperCodeError(failure, pane);
    const [kind, destroyUnattached, exitUnattached] = rows[0] ?? [];
    if (kind !== 'watch' || destroyUnattached !== 'off' || exitUnattached !== 'off') {
      throw new NotHarmlessError();
    }
    return new SessionWatch({
      session,
      connection: await helper.control(`control ${words}`, signal),
      clock,
      epochs: this.#epochs,
      logBytes: config.outputLogBytes,
      doorbell: () => this.#tmux.doorbell(),
      answersOthers: async () => {
        // Whatever it fails with, it is no answer.
        const answer = await helper.ask(`display ${words}`).catch(() => undefined);
        return answer?.failure === null;
      },
      ...(this.#mostLoad === undefined ? {} : { mostLoad: this.#mostLoad }),
    });
  }

  /** One connection to a server hears of all of it: each further one would only cost that server. */
  #hearServer(server: string): void {
    const watches = [...this.#entries.values()].flatMap((entry) =>
      entry.server === server && entry.watch?.over === false ? [entry.watch] : [],
    );
    if (!watches.some(({ hearsServer }) => hearsServer)) watches[0]?.hearServer();
  }

  #hold(entry: Entry, watch: SessionWatch, pane: PaneRef): Held {
    const log = watch.log(pane.pane);
    for (const held of this.#held) if (held.log === log) return held;
    const key = paneKey(pane);
    const held: Held = { entry, watch, log, pane: key, readers: 0, cancelLinger: undefined };
    this.#held.add(held);
    return held;
  }

  #seat(held: Held): Seat {
    const { entry, watch, log } = held;
    held.readers += 1;
    held.cancelLinger?.();
    held.cancelLinger = undefined;
    let left = false;
    return {
      session: watch.session,
      log,
      snapshot: (least) => watch.snapshot(log, least),
      [Symbol.dispose]: () => {
        if (left) return;
        left = true;
        held.readers -= 1;
        if (held.readers === 0) {
          held.cancelLinger = this.#tmux.clock.after(this.#tmux.config.lingerMs, () => {
            this.#held.delete(held);
            watch.forget(log);
          });
        }
        this.#left(entry);
      },
    };
  }

  #enter(entry: Entry): void {
    entry.readers += 1;
    entry.cancelLinger?.();
    entry.cancelLinger = undefined;
  }

  #left(entry: Entry): void {
    entry.readers -= 1;
    if (entry.readers > 0) return;
    if (entry.watch === undefined) {
      entry.abort.abort(new Error('Nobody waits for this control client any more.'));
      return;
    }
    entry.cancelLinger = this.#tmux.clock.after(this.#tmux.config.lingerMs, () =>
      this.#close(entry),
    );
  }

  #close(entry: Entry): void {
    entry.cancelLinger?.();
    for (const [key, other] of this.#entries) if (other === entry) this.#entries.delete(key);
    const closing = entry.opening
      .then((watch) => watch[Symbol.asyncDispose]())
      // Whoever waits for the opening hears why it failed; here is nothing left to close.
      .catch(() => {})
      .finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
    if (entry.watch === undefined) entry.abort.abort(new Error('Closed.'));
  }
}

function paneKey({ pathHex, generation, pane }: PaneRef): string {
  return `${pathHex}/${generation}/${pane}`;
}

class NotHarmlessError extends Error {
  override readonly name = 'NotHarmlessError';
}
