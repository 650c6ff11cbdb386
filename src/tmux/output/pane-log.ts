import type { Clock } from '../../concurrency/clock.ts';
import type {
  PaneCloseReason,
  PaneGapReason,
  PaneOutputEvent,
  SequenceState,
} from '../pane-events.ts';
import type { Epochs } from './output-cursor.ts';
import { OutputLog } from './output-log.ts';
import { stateAfter } from './plain-text.ts';
import { type Chunk, WaitingReaders } from './waiting-readers.ts';

/**
 * One pane's output while somebody watches it: the bytes, what happened between them (marks), and
 * how it ended. All readers of the pane share it.
 *
 * Readers see only what is published: at once while that is not too often, else gathered, so that all
 * who keep up read the same chunks, made once.
 */
export interface Mark {
  readonly number: number;
  /** It happened before the byte at this offset. */
  readonly offset: number;
  /** Null: what a terminal shows may differ from here on; only a new snapshot is right. */
  readonly size: { readonly columns: number; readonly rows: number } | null;
}

/** A screen, and the offset of the output that continues it. */
export interface Snapshot {
  readonly epoch: number;
  readonly offset: number;
  /** Number of the last mark before it. */
  readonly mark: number;
  readonly takenAt: number;
  /** In which control sequence the output goes on. */
  readonly state: SequenceState;
  readonly event: Extract<PaneOutputEvent, { kind: 'snapshot' }>;
}

export interface PaneEnd {
  readonly reason: PaneCloseReason;
  readonly exitStatus: number | null;
  readonly exitSignal: number | null;
}

export const drained: PaneEnd = {
  reason: 'SERVICE_DRAINING',
  exitStatus: null,
  exitSignal: null,
};

export const chunkBytes = 65_536;
/** How often is not too often: the pause that is left between two publications on the average. */
const pauseMs = 8;
/** The same, where telling all readers takes long: so many times that, so that there is time for other things. */
const pausesOfTelling = 2;
/** For so long the event loop is held by telling readers. */
const turnMs = 8;
const mostMarks = 64;
const mostChunks = 6;

interface Read {
  readonly from: number;
  readonly to: number;
  readonly chunk: Chunk;
}

export class PaneLog {
  readonly pane: number;
  readonly bytes: OutputLog;
  readonly readers = new WaitingReaders();
  snapshot: Snapshot | undefined;
  readonly #clock: Clock;
  readonly #gatherBytes: number;
  #marks: Mark[] = [];
  #lastMark = 0;
  #published = 0;
  /** When the next publication would be due if each kept its pause; it may be one pause early. */
  #nextAt = Number.NEGATIVE_INFINITY;
  #pauseMs = pauseMs;
  #gathering: (() => void) | undefined;
  /** How long telling readers of what was published last has taken; undefined when all know. */
  #toldMs: number | undefined;
  /**
   * Those read last: who is behind reads what others read a moment ago. No `Map`: whenever one that changes
   * makes room, its old table stays behind and points to the new one, and once one of these has got old,
   * young collections take all that come after it, and every chunk in them, for alive.
   */
  #chunks: readonly Read[] = [];
  #end: PaneEnd | undefined;
  #last: Snapshot | undefined;
  #detached = false;
  #resyncAtContinuation = false;
  #resyncAtMainScreen = false;
  #size: Mark['size'] = null;
  #pid: number | undefined;
  #deadSince: number | undefined;

  constructor(pane: number, limit: number, epochs: Epochs, clock: Clock) {
    this.pane = pane;
    this.bytes = new OutputLog(limit, epochs);
    this.#gatherBytes = Math.min(chunkBytes, limit / 4);
    this.#clock = clock;
  }

  /** How far readers may read. */
  get published(): number {
    return this.#published;
  }

  get lastMark(): number {
    return this.#lastMark;
  }

  /** How it ended; the bytes before that are still to be read. */
  get end(): PaneEnd | undefined {
    return this.#end;
  }

  /** The screen that stays behind: tmux drops output that it had not passed on when a program ended. */
  get last(): Snapshot | undefined {
    return this.#last;
  }

  /** Nothing comes any more and it is not known here why: look where the pane is now. */
  get detached(): boolean {
    return this.#detached;
  }

  append(data: Uint8Array): void {
    this.bytes.append(data);
    const first = data[0] ?? 0;
    if (this.#resyncAtContinuation) {
      this.#resyncAtContinuation = false;
      if (first >= 0x80 && first < 0xc0) this.mark(null);
    }
    if (this.#resyncAtMainScreen && leavesAlternateScreen(data)) {
      this.#resyncAtMainScreen = false;
      this.mark(null);
    }
  }

  /** Lets readers see what was appended: now, or soon when the pane is busy. */
  publish(): void {
    const waiting = this.bytes.end - this.#published;
    if (waiting === 0) return;
    const wait = this.#nextAt - this.#pauseMs - this.#clock.monotonic();
    if (waiting >= this.#gatherBytes) this.flush();
    else if (this.#toldMs !== undefined) return;
    else if (wait <= 0) this.flush();
    else this.#gathering ??= this.#clock.after(wait, () => this.flush());
  }

  flush(): void {
    this.#gathering?.();
    this.#gathering = undefined;
    if (this.#published === this.bytes.end) return;
    // Who was still to be told of what was before gets that now, as all others did.
    this.readers.tell();
    this.#offer(this.#published, this.bytes.end);
    this.#published = this.bytes.end;
    this.#nextAt = Math.max(this.#nextAt, this.#clock.monotonic());
    const isBegun = this.#toldMs !== undefined;
    this.#toldMs = 0;
    if (!isBegun) this.#tell();
  }

  /** One chunk for all who wait, unless the stretch is cut, or begins before what is still held. */
  #offer(from: number, to: number): void {
    const isWhole = from >= this.bytes.start && cutAfter(from) >= to;
    const chunk = isWhole && this.readers.size > 0 ? this.chunk(from, to) : undefined;
    this.readers.begin({ from, to, chunk });
  }

  /** In turns, for a thousand readers take longer than the event loop may be held. */
  #tell(): void {
    const from = this.#clock.monotonic();
    const took = () => this.#clock.monotonic() - from;
    const all = this.readers.tell(() => took() >= turnMs);
    this.#toldMs = (this.#toldMs ?? 0) + took();
    if (!all) {
      setImmediate(() => this.#tell());
      return;
    }
    this.#pauseMs = Math.max(pauseMs, pausesOfTelling * this.#toldMs);
    this.#nextAt += this.#pauseMs;
    this.#toldMs = undefined;
    this.publish();
  }

  mark(size: Mark['size']): void {
    this.#lastMark += 1;
    this.#marks.push({ number: this.#lastMark, offset: this.bytes.end, size });
    // A later mark brings size and screen up to date just as well.
    if (this.#marks.length > mostMarks) this.#marks.shift();
    this.flush();
    this.readers.rouse();
  }

  /** What tmux says of the pane now, whoever asked. */
  sized(columns: number, rows: number): void {
    const before = this.#size;
    if (before?.columns === columns && before.rows === rows) return;
    this.#size = { columns, rows };
    if (before === null) return;
    // tmux keeps the main screen in its old size until the alternate one is left.
    if (this.snapshot?.event.alternateScreen) this.#resyncAtMainScreen = true;
    this.mark(this.#size);
  }

  /** Another program in the same pane: tmux cleared the screen without a byte of output. */
  runs(pid: number): void {
    if (this.#pid !== undefined && this.#pid !== pid) this.mark(null);
    this.#pid = pid;
  }

  /** Called when it is seen dead: whether it was so for `ms` already. */
  isDeadFor(ms: number): boolean {
    const now = this.#clock.monotonic();
    this.#deadSince ??= now;
    return now - this.#deadSince >= ms;
  }

  /** The first mark with a higher number. */
  markAfter(number: number): Mark | undefined {
    return number === this.#lastMark ? undefined : this.#marks.find((mark) => mark.number > number);
  }

  /** Number of the last mark before the byte at `offset`, for a reader who continues there. */
  markBefore(offset: number): number {
    return this.#marks.findLast((mark) => mark.offset < offset)?.number ?? 0;
  }

  /**
   * Keeps a snapshot that was taken at the end of the log. `carryKnown`: the program's last
   * character was seen whole or in part; else a first byte that continues a character means that
   * tmux knew more of it than the snapshot shows. `savedOff`: the main screen below is not of this size.
   */
  keep(snapshot: Snapshot, carryKnown: boolean, savedOff: boolean): void {
    this.snapshot = snapshot;
    this.#resyncAtContinuation = !carryKnown;
    this.#resyncAtMainScreen =
      snapshot.event.alternateScreen && (savedOff || this.#resyncAtMainScreen);
    this.flush();
  }

  /** Bytes were lost here. */
  break(reason: PaneGapReason): void {
    this.bytes.break(reason);
    this.#published = this.bytes.end;
    this.#chunks = [];
    this.snapshot = undefined;
    this.readers.rouse();
  }

  /** `last`: what it shows in the end, where that can still be had. */
  close(end: PaneEnd, last?: Snapshot): void {
    if (this.#end === undefined) {
      this.#end = end;
      this.#last = last;
    }
    this.flush();
    this.readers.rouse();
  }

  detach(): void {
    this.#detached = true;
    this.flush();
    this.readers.rouse();
  }

  /**
   * The bytes from `from` on, up to `to` at most, as an event; the same object for all who ask for the
   * same ones. Those who are behind do: long stretches are cut at the same places for everybody.
   */
  chunk(from: number, to: number): Chunk {
    const until = Math.min(to, cutAfter(from));
    const known = this.#chunks.find((read) => read.from === from && read.to === until);
    if (known !== undefined) return known.chunk;
    const data = this.bytes.read(from, until);
    const chunk: Chunk = {
      kind: 'chunk',
      cursor: this.bytes.cursor(until),
      at: new Date(this.#clock.now()),
      data,
      carry: this.bytes.carryBefore(from),
      state: this.#stateAt(from),
    };
    this.#chunks = [...this.#chunks.slice(1 - mostChunks), { from, to: until, chunk }];
    return chunk;
  }

  #stateAt(offset: number): SequenceState {
    const { bytes } = this;
    if (this.snapshot?.epoch === bytes.epoch && this.snapshot.offset === offset)
      return this.snapshot.state;
    for (const { to, chunk } of this.#chunks)
      if (to === offset) return stateAfter(chunk.data, chunk.state);
    // The last ESC before it decides, and mostly is near.
    for (let size = 4_096; ; size *= 8) {
      const start = Math.max(bytes.start, offset - size);
      const data = bytes.read(start, offset);
      if (start === bytes.start || data.includes(0x1b)) return stateAfter(data, 'text');
    }
  }
}

/** Where a chunk that begins at `offset` ends at the latest. */
function cutAfter(offset: number): number {
  return offset - (offset % chunkBytes) + chunkBytes;
}

/** `ESC [ ? 47 l`, `1047`, `1049`, also among other modes; cut over two pieces it is missed. */
function leavesAlternateScreen(data: Uint8Array): boolean {
  return /\x1b\[\?(?:[\d;]*;)?(?:47|1047|1049)(?:;[\d;]*)?l/.test(
    Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('latin1'),
  );
}
