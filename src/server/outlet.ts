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
  /** As the stream says of itself, which is slow to look at, and this is looked at for each event. */
  #full = false;
  readonly #ring = () => {
    this.#full = false;
    this.#drained.ring();
  };

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
    return this.#full;
  }

  async untilDrained(signal?: AbortSignal): Promise<void> {
    while (this.isFull && signal?.aborted !== true) await this.#drained.wait(signal);
  }

  /**
   * All of these at once, and nothing in between. Gives whether the system has taken all that there
   * was: then the pieces are the caller's again.
   */
  write(first: Uint8Array, ...more: readonly Uint8Array[]): boolean {
    const stream = this.#stream;
    if (stream.destroyed || stream.writableEnded) return true;
    if (more.length > 0) stream.cork();
    let hasRoom = stream.write(first);
    for (const piece of more) hasRoom = stream.write(piece);
    if (more.length > 0) stream.uncork();
    if (!hasRoom) this.#full = true;
    return stream.writableLength === 0;
  }
}
