/** Holding it means being alone on that key; disposing lets the next one in, in order of asking. */
export interface Held extends Disposable {
  readonly key: string;
}

/** One lock for each key, made when first asked for and forgotten when nobody holds it. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>();

  isHeld(key: string): boolean {
    return this.#tails.has(key);
  }

  /** The lock, or undefined at once when somebody has it. */
  tryAcquire(key: string): Held | undefined {
    return this.#tails.has(key) ? undefined : this.#take(key);
  }

  /** The lock, after everybody who asked before. */
  async acquire(key: string): Promise<Held> {
    const before = this.#tails.get(key);
    const held = this.#take(key);
    await before;
    return held;
  }

  #take(key: string): Held {
    const { promise, resolve } = Promise.withResolvers<void>();
    const before = this.#tails.get(key);
    const tail = before === undefined ? promise : before.then(() => promise);
    this.#tails.set(key, tail);
    let released = false;
    return {
      key,
      [Symbol.dispose]: () => {
        if (released) return;
        released = true;
        resolve();
        if (this.#tails.get(key) === tail) this.#tails.delete(key);
      },
    };
  }
}
