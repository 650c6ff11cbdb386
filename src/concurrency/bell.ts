/**
 * Wakes everybody who waits. A bell carries no data and remembers no ring: whoever waits looks at
 * the state itself, right before waiting and again after waking.
 *
 * Waiters are a set that each leaves on waking or aborting; a long-lived promise raced again and
 * again would keep every loser alive.
 */
export class Bell {
  readonly #waiting = new Set<() => void>();

  /** How many wait now. */
  get waiting(): number {
    return this.#waiting.size;
  }

  ring(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Resolves at the next ring, or at once when the signal is (or gets) aborted. */
  wait(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const wake = () => {
        this.#waiting.delete(wake);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener('abort', wake, { once: true });
    });
  }
}
