import type { PaneOutputEvent } from '../pane-events.ts';

export type Chunk = Extract<PaneOutputEvent, { kind: 'chunk' }>;

/** A reader that has all that was published of a pane, and waits for more. */
export interface WaitingReader {
  /**
   * Those from `from` to `to` are there, in `chunk`, or to be fetched where that is undefined. It goes on
   * waiting where it took them, or has them: it may have come back while others are still told.
   */
  offer(from: number, to: number, chunk: Chunk | undefined): void;
  /** There is something to be looked at. It waits no more. */
  ring(): void;
}

/** A look at the clock is not for each of them. */
const asked = 8;

interface Offer {
  readonly from: number;
  readonly to: number;
  /** Undefined: they are for each reader to fetch. */
  readonly chunk: Chunk | undefined;
}

/**
 * All readers that wait for more of a pane. What comes next is the same for all of them, so it is handed
 * to one after the other, who neither look where they stand nor leave and come back for it. May be
 * interrupted: then the rest is told in another turn, or at the latest when something else is to be told.
 */
export class WaitingReaders {
  readonly #readers = new Set<WaitingReader>();
  #offer: Offer | undefined;
  #rest: Iterator<WaitingReader> = this.#readers.values();

  add(reader: WaitingReader): void {
    this.#readers.add(reader);
  }

  delete(reader: WaitingReader): void {
    this.#readers.delete(reader);
  }

  get size(): number {
    return this.#readers.size;
  }

  /** The present offer is for all who wait now; `tell` tells them. The one before must be told. */
  begin(offer: Offer): void {
    this.#offer = offer;
    this.#rest = this.#readers.values();
  }

  /** Tells one after the other until that is enough; gives whether all are told. */
  tell(isEnough = () => false): boolean {
    const offer = this.#offer;
    if (offer === undefined) return true;
    const { from, to, chunk } = offer;
    for (let told = 1; ; told++) {
      const { done, value: reader } = this.#rest.next();
      if (done) break;
      reader.offer(from, to, chunk);
      if (told % asked === 0 && isEnough()) return false;
    }
    this.#offer = undefined;
    return true;
  }

  /** Rings all, also those who were not told yet. */
  rouse(): void {
    this.#offer = undefined;
    for (const reader of [...this.#readers]) reader.ring();
  }
}
