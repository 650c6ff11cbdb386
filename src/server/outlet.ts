import type { Writable } from 'node:stream';
import { Bell } from '../concurrency/bell.ts';

/**
 * The writing end of one connection, for all that is sent on it. Whoever has something to send waits
 * until it is not full, and only then fetches what is newest: nothing piles up in here but what the
 * connection's own buffer holds.
 */
export class Outlet implements Disposable {
  readonly #stream: Writable;
  readonly #drained = new Bell();
  readonly #ring = () => this.#drained.ring();

  constructor(stream: Writable) {
    this.#stream = stream;
    stream.on('drain', this.#ring);
    stream.on('close', this.#ring);
  }

  /** The connection goes on without it. */
  [Symbol.dispose](): void {
    this.#stream.off('drain', this.#ring);
    this.#stream.off('close', this.#ring);
  }

  get isFull(): boolean {
    return this.#stream.writableNeedDrain && !this.#stream.destroyed;
  }

  async untilDrained(signal?: AbortSignal): Promise<void> {
    while (this.isFull && signal?.aborted !== true) await this.#drained.wait(signal);
  }

  /**
   * All of these at once, and nothing in between. Gives whether the system has taken all that there
   * was: then the pieces are the caller's again.
   */
  write(...pieces: readonly Uint8Array[]): boolean {
    if (this.#stream.destroyed || this.#stream.writableEnded) return true;
    if (pieces.length > 1) this.#stream.cork();
    for (const piece of pieces) this.#stream.write(piece);
    if (pieces.length > 1) this.#stream.uncork();
    return this.#stream.writableLength === 0;
  }
}
