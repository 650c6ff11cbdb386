import type { PaneGapReason } from '../pane-events.ts';
import { type Epochs, encodeCursor, type OutputCursor } from './output-cursor.ts';
import { incompleteTail } from './pane-text.ts';

const nothing = Buffer.alloc(0);

/**
 * The last bytes of one pane's output, and where each of them stood. Readers are offsets into it,
 * never queues, so however many and however slow they are, memory is bounded by `limit`.
 *
 * Always holds: `start <= end`, `end - start <= limit`; every byte in between is the one that was
 * appended at that offset. Offsets run on over a break; an epoch is a stretch without one, and a
 * cursor of another epoch leads nowhere.
 */
export class OutputLog {
  readonly #limit: number;
  readonly #epochs: Epochs;
  readonly #broken = new Map<number, PaneGapReason>();
  #ring: Buffer = Buffer.alloc(0);
  #epoch: number;
  #epochStart = 0;
  #end = 0;
  #seen = false;

  constructor(limit: number, epochs: Epochs) {
    this.#limit = limit;
    this.#epochs = epochs;
    this.#epoch = epochs.next();
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** Offset behind the last byte. */
  get end(): number {
    return this.#end;
  }

  /** Offset of the oldest byte that can still be read. */
  get start(): number {
    return Math.max(this.#epochStart, this.#end - this.#limit);
  }

  /** Whether this epoch holds the beginning of a character: then what `carryBefore` says is whole. */
  get seen(): boolean {
    return this.#seen;
  }

  append(data: Uint8Array): void {
    this.#seen ||= data.some((byte) => byte < 0x80 || byte >= 0xc0);
    const kept = data.length > this.#limit ? data.subarray(data.length - this.#limit) : data;
    this.#end += data.length - kept.length;
    this.#grow(kept.length);
    const at = this.#end % this.#ring.length;
    const first = Math.min(kept.length, this.#ring.length - at);
    this.#ring.set(kept.subarray(0, first), at);
    if (first < kept.length) this.#ring.set(kept.subarray(first), 0);
    this.#end += kept.length;
  }

  /** A copy of the bytes from `from` to `to`, both between `start` and `end`. */
  read(from: number, to: number): Buffer {
    if (from < this.start || to > this.#end || from > to) throw new RangeError('Not in the log.');
    return this.#copy(from, to);
  }

  /** The incomplete UTF-8 sequence right before `offset`, as far as it was seen. */
  carryBefore(offset: number): Uint8Array {
    const oldest = Math.max(this.#epochStart, this.#end - this.#ring.length);
    const last = offset > oldest ? this.#ring[(offset - 1) % this.#ring.length] : undefined;
    if (last !== undefined && last < 0x80) return nothing;
    return incompleteTail(this.#copy(Math.max(oldest, Math.min(offset, offset - 3)), offset));
  }

  /** Bytes were lost here: everything so far is out of reach, and what follows is another epoch. */
  break(reason: PaneGapReason): void {
    this.#broken.set(this.#epoch, reason);
    const oldest = this.#broken.keys().next();
    if (this.#broken.size > 16 && !oldest.done) this.#broken.delete(oldest.value);
    this.#epoch = this.#epochs.next();
    this.#epochStart = this.#end;
    this.#seen = false;
  }

  cursor(offset: number, epoch: number = this.#epoch): string {
    return encodeCursor({ run: this.#epochs.run, epoch, offset });
  }

  /**
   * Where a cursor leads: an offset that can be read, or why not.
   * @throws RangeError for a place that this epoch never had
   */
  locate(cursor: OutputCursor): number | PaneGapReason {
    if (cursor.run !== this.#epochs.run) return 'SERVICE_RESTARTED';
    if (cursor.epoch !== this.#epoch) return this.reasonOf(cursor.epoch);
    if (cursor.offset < this.#epochStart || cursor.offset > this.#end) {
      throw new RangeError('`after` is no cursor of this pane. Use one that an event carried.');
    }
    return cursor.offset < this.start ? 'LOG_TRIMMED' : cursor.offset;
  }

  /** Why a past epoch came to its end. */
  reasonOf(epoch: number): PaneGapReason {
    return this.#broken.get(epoch) ?? 'RECONNECTED';
  }

  #copy(from: number, to: number): Buffer {
    const copy = Buffer.allocUnsafe(to - from);
    if (copy.length === 0) return copy;
    const at = from % this.#ring.length;
    const first = this.#ring.copy(copy, 0, at, Math.min(at + copy.length, this.#ring.length));
    if (first < copy.length) this.#ring.copy(copy, first, 0, copy.length - first);
    return copy;
  }

  /** Doubles the ring up to the limit, and three bytes more for the carry of the oldest offset. */
  #grow(more: number): void {
    const needed = Math.min(this.#end - this.start + more, this.#limit) + 3;
    if (this.#ring.length >= needed) return;
    const size = Math.min(this.#limit + 3, Math.max(4_096, 2 * this.#ring.length, needed));
    const from = Math.max(0, this.#end - this.#ring.length);
    const held = this.#copy(from, this.#end);
    this.#ring = Buffer.alloc(size);
    const at = from % size;
    const first = held.copy(this.#ring, at, 0, Math.min(held.length, size - at));
    if (first < held.length) held.copy(this.#ring, 0, first);
  }
}
