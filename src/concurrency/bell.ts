/**
 * Wakes everybody who waits. A bell carries no data and remembers no ring: whoever waits looks at
 * the state itself, right before waiting and again after waking.
 *
 * Waiters are a set that each leaves on waking or aborting; a long-lived promise raced again and
 * again would keep every loser alive.
 */
export class Bell {
  #waiting = new Set<() => void>();
  /** Those of the last ring, and where among them it has come to. */
  #woken = new Set<() => void>();
  #rest = this.#woken.values();

  /** How many wait now. */
  get waiting(): number {
    return this.#waiting.size;
  }

  ring(): void {
    this.begin();
    this.wake();
  }

  /** A ring that wakes nobody yet: `wake` does. Ends the one before. */
  begin(): void {
    this.wake();
    // Another one: a set that is cleared leaves a table behind that points to all later ones (made-of.ts).
    this.#woken = this.#waiting;
    this.#waiting = new Set();
    this.#rest = this.#woken.values();
  }

  /** Wakes one after the other of those whose ring it is, until that is enough; gives whether all are awake. */
  wake(isEnough = () => false): boolean {
    for (;;) {
      const { done, value: wake } = this.#rest.next();
      if (done) return true;
      wake();
      if (isEnough()) return false;
    }
  }

  /** Calls it at the next ring, unless it is taken back before; for those who wait again and again. */
  add(wake: () => void): void {
    this.#waiting.add(wake);
  }

  takeBack(wake: () => void): void {
    this.#waiting.delete(wake);
    this.#woken.delete(wake);
  }

  /** Resolves at the next ring, or at once when the signal is (or gets) aborted. */
  wait(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const wake = () => {
        this.takeBack(wake);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener('abort', wake, { once: true });
    });
  }
}
