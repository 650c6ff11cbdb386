import { isRefusal, ListingUnknownError } from '../errors.ts';
import type { LocatedPane, MemberTmux } from '../member-tmux.ts';
import type { PaneRef } from '../model.ts';
import type { PaneCapture, PaneOutputEvent, PaneScreenEvent } from '../pane-events.ts';
import { captureStream } from './capture-stream.ts';
import { captureByHelper } from './helper-capture.ts';
import { decodeCursor, Epochs, encodeCursor, type OutputCursor } from './output-cursor.ts';
import { drained } from './pane-log.ts';
import { type After, PaneReader, type ReaderHost } from './pane-reader.ts';
import { paneScreens } from './pane-screen.ts';
import { revocable } from './revocable.ts';
import { type Seat, SessionWatches } from './session-watches.ts';

export interface PaneOutputsOptions {
  readonly tmux: MemberTmux;
  /** One for the whole service: then a cursor says whether it is from before a restart of ours. */
  readonly epochs?: Epochs;
  /** Share of the process's time that one connection may take for seconds on end; default 0.6. */
  readonly mostLoad?: number;
}

const allEpochs = new Epochs();

/**
 * The output of one member's panes. Nothing is started before the first event is asked for, and
 * nothing outlives the linger after the last reader left, however it left.
 */
export class PaneOutputs implements AsyncDisposable {
  readonly #tmux: MemberTmux;
  readonly #epochs: Epochs;
  readonly #watches: SessionWatches;
  readonly #draining = new AbortController();
  readonly #host: ReaderHost;

  constructor({ tmux, epochs = allEpochs, mostLoad }: PaneOutputsOptions) {
    this.#tmux = tmux;
    this.#epochs = epochs;
    this.#watches = new SessionWatches(tmux, epochs, mostLoad);
    this.#host = {
      tmux,
      draining: this.#draining.signal,
      sit: (pane, signal) => this.#sit(pane, tmux.locatePane(pane), signal),
    };
  }

  /**
   * A snapshot, then what continues it; or what continues `after`. Ends with `closed`, or silently
   * when the signal is aborted or the iterator returned.
   * @throws RangeError for a bad `after`; StaleGenerationError, NotFoundError, ListingUnknownError
   * (all on the first step)
   */
  output(
    pane: PaneRef,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncIterableIterator<PaneOutputEvent, void> {
    return revocable((either) => this.#open(pane, after, either), signal);
  }

  /** The screen whenever it changed, `everyMs` apart at least. Ends and throws as `output`. */
  screens(
    pane: PaneRef,
    everyMs: number,
    signal: AbortSignal,
  ): AsyncIterableIterator<PaneScreenEvent, void> {
    let skip = () => {};
    const seated = (reader: PaneReader) => {
      skip = () => reader.skip();
    };
    const { clock } = this.#tmux;
    return revocable(async (either) => {
      const pace = { everyMs, pane: pane.pane, clock, signal: either };
      const events = await this.#open(pane, undefined, either, seated);
      return paneScreens(events, () => skip(), pace);
    }, signal);
  }

  /** @throws StaleGenerationError, NotFoundError, ListingUnknownError */
  async capture(pane: PaneRef, lines: number, signal?: AbortSignal): Promise<PaneCapture> {
    if (!Number.isSafeInteger(lines) || lines < 0) throw new RangeError('`lines` is 0 or more.');
    const { target } = await this.#tmux.findPane(pane);
    const { helper, clock } = this.#tmux;
    return captureByHelper(helper, target, pane, lines, clock.now(), signal);
  }

  /** Control clients of ours, which are nobody's presence. */
  ownClientPids(): ReadonlySet<number> {
    return this.#watches.pids();
  }

  /** Ends every stream with SERVICE_DRAINING, then every connection. */
  async drain(): Promise<void> {
    this.#draining.abort(new Error('The service is draining.'));
    await this.#watches.drain();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }

  async #open(
    pane: PaneRef,
    after: string | undefined,
    signal: AbortSignal,
    seated: (reader: PaneReader) => void = () => {},
  ): Promise<PaneEvents> {
    const cursor = after === undefined ? undefined : decodeCursor(after);
    if (after !== undefined && cursor === undefined) {
      throw new RangeError('`after` is no cursor. Use one that an event of this pane carried.');
    }
    const known = after !== undefined && cursor !== undefined ? { text: after, cursor } : undefined;
    const held = known && (await this.#resume(pane, known.cursor));
    if (held !== undefined) return this.#read(pane, held, known, signal, seated);
    const located = await this.#tmux.findPane(pane);
    signal.throwIfAborted();
    const seat = await this.#firstSeat(pane, located, signal);
    if (seat === 'drained') {
      const end = { run: this.#epochs.run, epoch: this.#epochs.next(), offset: 0 };
      return only({ kind: 'closed', cursor: after ?? encodeCursor(end), ...drained });
    }
    if (seat !== undefined) return this.#read(pane, seat, known, signal, seated);
    const { signal: draining } = this.#draining;
    return captureStream(this.#tmux, pane, located, this.#epochs, after, draining, signal);
  }

  /** Where the log still goes on from the cursor: no look at tmux is needed, and its pane may be gone. */
  async #resume(pane: PaneRef, cursor: OutputCursor): Promise<Seat | undefined> {
    const seat = this.#watches.resume(pane, cursor);
    if (seat === undefined) return undefined;
    const { log } = seat;
    const nothingLeft = log.end !== undefined && cursor.offset === log.bytes.end;
    if (!nothingLeft || !(await this.#livesAgain(pane))) return seat;
    seat[Symbol.dispose]();
    return undefined;
  }

  /** Another program was started in a pane that was left dead. */
  async #livesAgain(pane: PaneRef): Promise<boolean> {
    await this.#tmux.refresh();
    try {
      return !this.#tmux.locatePane(pane).pane.dead;
    } catch (error) {
      if (isRefusal(error)) return false;
      throw error;
    }
  }

  #read(
    pane: PaneRef,
    seat: Seat,
    after: After | undefined,
    signal: AbortSignal,
    seated: (reader: PaneReader) => void,
  ): PaneEvents {
    try {
      const reader = new PaneReader(this.#host, pane, seat, after, signal);
      seated(reader);
      return reader.events();
    } catch (error) {
      seat[Symbol.dispose]();
      throw error;
    }
  }

  async #firstSeat(pane: PaneRef, located: LocatedPane, signal: AbortSignal) {
    try {
      return await this.#sit(pane, located, signal);
    } catch (error) {
      if (this.#draining.signal.aborted) return 'drained';
      throw error;
    }
  }

  #sit(pane: PaneRef, located: LocatedPane, signal: AbortSignal): Promise<Seat | undefined> {
    this.#draining.signal.throwIfAborted();
    const { status, reason, detail, listing } = located.server;
    if (status !== 'RUNNING') {
      throw new ListingUnknownError(
        reason ?? 'TIMEOUT',
        listing.nextAttemptAt,
        detail ?? `the tmux server is ${status}`,
      );
    }
    return this.#watches.sit(pane, located, signal);
  }
}

type PaneEvents = AsyncIterableIterator<PaneOutputEvent, void>;

async function* only(event: PaneOutputEvent): AsyncGenerator<PaneOutputEvent, void> {
  yield event;
}
