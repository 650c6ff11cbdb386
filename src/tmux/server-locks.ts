import { type Held, KeyedMutex } from '../concurrency/keyed-mutex.ts';
import { OperationInProgressError } from './errors.ts';

/**
 * One act at a time on each server of a member.
 *
 * A restart or repair takes the lock `alone`: a second one is refused at once, by the operation id
 * of the first, while either of them holds the lock or waits for it. What acts on a pane takes its
 * turn in order of asking; after waiting it has to look again at what it meant to act on.
 */
export class ServerLocks {
  readonly #mutex = new KeyedMutex();
  readonly #alone = new Map<string, string>();

  /** Who restarts or repairs that server now. */
  holder(key: string): string | undefined {
    return this.#alone.get(key);
  }

  /** @throws OperationInProgressError at once while another restart or repair runs. */
  async acquireAlone(key: string, operationId: string): Promise<Held> {
    const other = this.#alone.get(key);
    if (other !== undefined) throw new OperationInProgressError(other);
    this.#alone.set(key, operationId);
    const held = await this.#mutex.acquire(key);
    return {
      key,
      [Symbol.dispose]: () => {
        if (this.#alone.get(key) === operationId) this.#alone.delete(key);
        held[Symbol.dispose]();
      },
    };
  }

  /** Waits for every act on that server that asked before. */
  acquire(key: string): Promise<Held> {
    return this.#mutex.acquire(key);
  }
}
