/**
 * How many processes may be starting at once, for all members together.
 *
 * - `act`: goes first, but leaves one place to reads, so that acts and listings never wait for
 *   each other for longer than one start.
 * - `read`: in order of asking.
 * - `failing`: a read of a member whose last attempt failed. All of these together have one place:
 *   members that hang take nothing from those that answer.
 *
 * A place is held while a process starts, or for the whole life of a one-shot; whoever holds one is
 * bound by a deadline of its own.
 */
export type StartKind = 'act' | 'read' | 'failing';

interface Waiter {
  readonly kind: StartKind;
  readonly enter: () => void;
}

export class StartGate {
  readonly #limit: number;
  readonly #inside: Record<StartKind, number> = { act: 0, read: 0, failing: 0 };
  readonly #waiting = new Set<Waiter>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get inside(): number {
    return this.#inside.act + this.#inside.read + this.#inside.failing;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves with what gives the place back (once); rejects with the signal's reason. */
  enter(kind: StartKind, signal?: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const waiter: Waiter = {
        kind,
        enter: () => {
          signal?.removeEventListener('abort', abort);
          resolve(this.#place(kind));
        },
      };
      const abort = () => {
        this.#waiting.delete(waiter);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.#waiting.add(waiter);
      this.#admit();
    });
  }

  #place(kind: StartKind): () => void {
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#inside[kind]--;
      this.#admit();
    };
  }

  #admit(): void {
    for (const kind of ['act', 'read', 'failing'] as const) {
      for (const waiter of this.#waiting) {
        if (waiter.kind !== kind) continue;
        if (!this.#hasRoom(kind)) break;
        this.#waiting.delete(waiter);
        this.#inside[kind]++;
        waiter.enter();
      }
    }
  }

  #hasRoom(kind: StartKind): boolean {
    if (this.inside >= this.#limit) return false;
    if (kind === 'failing') return this.#inside.failing < 1;
    return kind === 'read' || this.#inside.act < Math.max(1, this.#limit - 1);
  }
}
