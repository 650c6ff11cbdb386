import { sleep } from '../../concurrency/clock.ts';
import { atOnce, type Offer, type Prompt } from '../../concurrency/prompt.ts';
import { isRefusal, ListingUnknownError, NotFoundError } from '../errors.ts';
import type { MemberTmux } from '../member-tmux.ts';
import type { PaneRef } from '../model.ts';
import type { PaneGapReason, PaneOutputEvent } from '../pane-events.ts';
import { ControlEndedError, ControlTimeoutError } from './control-client.ts';
import type { OutputCursor } from './output-cursor.ts';
import { drained, type Mark, type PaneEnd, type PaneLog, type Snapshot } from './pane-log.ts';
import { whereabouts } from './pane-whereabouts.ts';
import type { Seat } from './session-watches.ts';
import type { Chunk, WaitingReader } from './waiting-readers.ts';

/**
 * One reader of a pane: an offset in its log, moved on only when somebody takes an event. What
 * comes next is decided from the log's state alone, so a reader that was away for an hour and one
 * that was never away are the same code.
 *
 * Always holds: the bytes of the chunks between two gaps are the pane's bytes between their
 * offsets, each once. A snapshot among them stands exactly where it belongs.
 */
export interface ReaderHost {
  readonly tmux: MemberTmux;
  /** Aborted when the service drains. */
  readonly draining: AbortSignal;
  /** @throws StaleGenerationError, NotFoundError, ListingUnknownError; undefined: not to be attached */
  sit(pane: PaneRef, signal: AbortSignal): Promise<Seat | undefined>;
}

/** What a reader has already. */
export interface After {
  readonly text: string;
  readonly cursor: OutputCursor;
}

const retryMs = 1_000;
const firstReconnectMs = 250;
const mostReconnectMs = 60_000;
const steadyMs = 10_000;

export class PaneReader implements WaitingReader {
  readonly #host: ReaderHost;
  readonly #pane: PaneRef;
  readonly #signal: AbortSignal;
  #seat: Seat;
  #seatedAt: number;
  #reconnectMs = firstReconnectMs;
  /** Of the log; undefined while only a snapshot can be next. */
  #epoch: number | undefined;
  #offset = 0;
  /** The next first snapshot is not older than this. */
  #least = 0;
  #mark = 0;
  #cursor: string;
  #gap: PaneGapReason | undefined;
  #begun = false;
  /** Called when there is something to be looked at. */
  #waiting: (() => void) | undefined;
  /** Who waits takes the next chunk by this. */
  #take: Offer<PaneOutputEvent> | undefined;
  /** As the signal, which is slow to look at, and this is looked at for each event. */
  #left = false;
  #shown: Snapshot | undefined;
  /** What a terminal shows is not right from this offset on: a new screen is to be had. */
  #staleFrom: number | undefined;
  /** That screen, to be shown when its offset is reached. */
  #due: Snapshot | undefined;

  /** @throws RangeError for a cursor that its epoch never had */
  constructor(
    host: ReaderHost,
    pane: PaneRef,
    seat: Seat,
    after: After | undefined,
    signal: AbortSignal,
  ) {
    this.#host = host;
    this.#pane = pane;
    this.#seat = seat;
    this.#signal = signal;
    this.#seatedAt = host.tmux.clock.monotonic();
    this.#cursor = after?.text ?? seat.log.bytes.cursor(seat.log.bytes.end);
    if (after === undefined) return;
    const found = seat.log.bytes.locate(after.cursor);
    this.#offset = after.cursor.offset;
    if (typeof found === 'string') this.#gap = found;
    else {
      this.#epoch = seat.log.bytes.epoch;
      this.#mark = seat.log.markBefore(found);
      this.#begun = true;
    }
  }

  /** Leaves out all that has come: a new snapshot is next. */
  skip(): void {
    this.#epoch = undefined;
    this.#least = this.#seat.log.bytes.end;
  }

  events(): Prompt<PaneOutputEvent> {
    return Object.assign(this.#events(), {
      [atOnce]: {
        take: () => (this.#isLevel() ? this.#next(this.#seat.log) : undefined),
        wait: (ring: () => void, offer?: Offer<PaneOutputEvent>) => {
          const rests = this.#rests();
          if (rests) this.#wait(ring, offer);
          return rests;
        },
      },
    });
  }

  async *#events(): AsyncGenerator<PaneOutputEvent, void> {
    // A consumer that was cut off in the middle of an event never comes back to a finally.
    const release = () => this.#release();
    this.#signal.addEventListener('abort', release, { once: true });
    if (this.#signal.aborted) release();
    try {
      while (!this.#left) {
        const { log } = this.#seat;
        const hole = this.#hole(log);
        const next = hole === undefined && this.#epoch !== undefined ? this.#next(log) : undefined;
        const mark = log.markAfter(this.#mark);
        if (hole !== undefined || this.#epoch === undefined) yield* this.#begin(log, hole);
        else if (next !== undefined) yield next;
        else if (mark !== undefined) yield* this.#pass(mark);
        else if (log.last !== undefined && this.#shown !== log.last) this.#due = log.last;
        else if (log.end !== undefined) {
          yield closed(log, log.end);
          return;
        } else if (log.detached) await this.#moveOn();
        else if (this.#staleFrom !== undefined) await this.#renew(this.#staleFrom);
        else await new Promise<void>((resolve) => this.#wait(resolve));
      }
    } finally {
      this.#signal.removeEventListener('abort', release);
      release();
    }
  }

  /** Gives the place back, at once. */
  #release(): void {
    this.#left = true;
    this.#seat[Symbol.dispose]();
    this.ring();
  }

  /** `ring` is called also at the end of this reader, which nobody need listen to then. */
  #wait(ring: () => void, offer?: Offer<PaneOutputEvent>): void {
    this.#waiting = ring;
    this.#take = offer;
    this.#seat.log.readers.add(this);
  }

  offer(from: number, to: number, chunk: Chunk | undefined): void {
    if (this.#offset === to) return;
    if (chunk !== undefined && this.#offset === from && this.#take?.(chunk) === true) {
      this.#offset = to;
      this.#cursor = chunk.cursor;
    } else this.ring();
  }

  ring(): void {
    const ring = this.#waiting;
    this.#waiting = undefined;
    this.#take = undefined;
    this.#seat.log.readers.delete(this);
    ring?.();
  }

  /** Where it stands, the log goes on. */
  #isLevel(): boolean {
    return !this.#left && this.#epoch !== undefined && this.#hole(this.#seat.log) === undefined;
  }

  /** It has all that was published, and nothing else is to be said or asked. */
  #rests(): boolean {
    const { log } = this.#seat;
    if (!this.#isLevel() || this.#offset !== log.published) return false;
    if (this.#due !== undefined || this.#staleFrom !== undefined) return false;
    if (log.end !== undefined || log.detached) return false;
    return log.markAfter(this.#mark) === undefined;
  }

  #hole(log: PaneLog): PaneGapReason | undefined {
    if (this.#gap !== undefined || this.#epoch === undefined) return this.#gap;
    if (log.bytes.epoch !== this.#epoch) return log.bytes.reasonOf(this.#epoch);
    return this.#offset < log.bytes.start ? 'SLOW_READER' : undefined;
  }

  /** The first snapshot; or a gap, and the snapshot behind it. */
  async *#begin(log: PaneLog, hole: PaneGapReason | undefined): AsyncGenerator<PaneOutputEvent> {
    const snapshot =
      log.end === undefined
        ? await this.#snapshot(Math.max(log.bytes.start, this.#least))
        : log.last;
    if (snapshot === undefined && log.end === undefined) return;
    const offset = snapshot?.offset ?? log.bytes.end;
    if (hole !== undefined) {
      const counted = hole === 'SLOW_READER' || hole === 'LOG_TRIMMED';
      const missedBytes = counted ? offset - this.#offset : null;
      yield { kind: 'gap', cursor: this.#cursor, missedBytes, reason: hole };
    }
    this.#gap = undefined;
    this.#due = undefined;
    this.#staleFrom = undefined;
    this.#epoch = snapshot?.epoch ?? log.bytes.epoch;
    this.#offset = offset;
    if (snapshot !== undefined) yield this.#show(snapshot);
    else this.#mark = log.lastMark;
  }

  #show(snapshot: Snapshot): PaneOutputEvent {
    this.#mark = snapshot.mark;
    this.#cursor = snapshot.event.cursor;
    this.#begun = true;
    this.#shown = snapshot;
    return snapshot.event;
  }

  /** What can be said without asking anybody. */
  #next(log: PaneLog): PaneOutputEvent | undefined {
    const mark = log.markAfter(this.#mark);
    const due = this.#due;
    const limit = Math.min(log.published, mark?.offset ?? Infinity, due?.offset ?? Infinity);
    if (this.#offset < limit) {
      const chunk = log.chunk(this.#offset, limit);
      this.#offset += chunk.data.length;
      this.#cursor = chunk.cursor;
      return chunk;
    }
    if (due === undefined || due.offset > this.#offset) return undefined;
    // A mark before it is told first.
    if (mark !== undefined && mark.number <= due.mark) return undefined;
    this.#due = undefined;
    return this.#show(due);
  }

  *#pass(mark: Mark): Generator<PaneOutputEvent> {
    this.#mark = mark.number;
    if (this.#due === undefined || this.#due.mark < mark.number) {
      this.#due = undefined;
      this.#staleFrom = mark.offset;
    }
    if (mark.size !== null) yield { kind: 'resized', cursor: this.#cursor, ...mark.size };
  }

  async #renew(from: number): Promise<void> {
    // What was read on meanwhile is in it too: a screen of before would take that back.
    this.#due = await this.#snapshot(Math.max(from, this.#offset));
    if (this.#due !== undefined) this.#staleFrom = undefined;
  }

  /** Undefined: none to be had now; the log, or another try, will tell. */
  async #snapshot(least: number): Promise<Snapshot | undefined> {
    const { log } = this.#seat;
    if (log.detached) {
      await this.#moveOn();
      return undefined;
    }
    try {
      const snapshot = await this.#seat.snapshot(least);
      if (snapshot !== undefined) return snapshot;
      if (!this.#begun) throw new NotFoundError('The pane');
    } catch (error) {
      if (error instanceof ControlTimeoutError) {
        if (!this.#begun) {
          throw new ListingUnknownError('TIMEOUT', null, error.message, { cause: error });
        }
      } else if (!(error instanceof ControlEndedError)) throw error;
    }
    if (log.end === undefined && !log.detached) await this.#pause(retryMs);
    return undefined;
  }

  /** Nothing comes from the connection any more: sits down where the pane is now, or says how it ended. */
  async #moveOn(): Promise<void> {
    const { tmux, draining } = this.#host;
    const { log, session } = this.#seat;
    if (tmux.clock.monotonic() - this.#seatedAt > steadyMs) this.#reconnectMs = firstReconnectMs;
    const now = await whereabouts(tmux, this.#pane, session);
    if (draining.aborted) log.close(drained);
    else if (now.kind === 'ended') log.close(now.end);
    else if (now.kind === 'unknown' || !(await this.#sitAgain())) {
      await this.#pause(this.#reconnectMs);
      this.#reconnectMs = Math.min(2 * this.#reconnectMs, mostReconnectMs);
    }
  }

  async #sitAgain(): Promise<boolean> {
    try {
      const seat = await this.#host.sit(this.#pane, this.#signal);
      if (seat === undefined) return false;
      this.#seat[Symbol.dispose]();
      this.#seat = seat;
      this.#least = 0;
      if (this.#signal.aborted) this.#release();
      this.#seatedAt = this.#host.tmux.clock.monotonic();
      this.#reconnectMs = Math.min(2 * this.#reconnectMs, mostReconnectMs);
      // What the log of before had left could be counted; what came since could not.
      if (this.#begun || this.#gap === 'LOG_TRIMMED') this.#gap = 'RECONNECTED';
      return true;
    } catch (error) {
      if (isRefusal(error) || this.#signal.aborted || this.#host.draining.aborted) return false;
      throw error;
    }
  }

  async #pause(ms: number): Promise<void> {
    const either = AbortSignal.any([this.#signal, this.#host.draining]);
    // An abort is seen by whoever loops.
    await sleep(ms, this.#host.tmux.clock, either).catch(() => {});
  }
}

/** The last event: its cursor is the end of the log. */
export function closed(log: PaneLog, end: PaneEnd): PaneOutputEvent {
  return { kind: 'closed', cursor: log.bytes.cursor(log.bytes.end), ...end };
}
