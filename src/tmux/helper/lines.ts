const lf = 0x0a;

/**
 * Lines as the bytes that they came as, and where each begins. Nearly all that a look tells is what the
 * look before told, so lines are compared as bytes, many at a time, and only those are read that differ.
 */
export class Lines {
  static readonly none = new Lines(Buffer.alloc(0), new Uint32Array(1));

  readonly #bytes: Buffer;
  /** One more than there are lines: each ends, with its LF, where the next begins. */
  readonly #starts: Uint32Array;

  private constructor(bytes: Buffer, starts: Uint32Array) {
    this.#bytes = bytes;
    this.#starts = starts;
  }

  static of(bytes: Buffer): Lines {
    const starts = [0];
    for (let at = bytes.indexOf(lf); at !== -1; at = bytes.indexOf(lf, at + 1)) starts.push(at + 1);
    if (starts.at(-1) !== bytes.length) starts.push(bytes.length);
    return new Lines(bytes, new Uint32Array(starts));
  }

  get count(): number {
    return this.#starts.length - 1;
  }

  /** One of them, without its LF. */
  text(at: number): string {
    const end = this.#start(at + 1);
    const ended = this.#bytes[end - 1] === lf;
    return this.#bytes.toString('utf8', this.#start(at), ended ? end - 1 : end);
  }

  toString(): string {
    return this.#bytes.toString('utf8', this.#start(0), this.#start(this.count));
  }

  begins(at: number, beginning: Uint8Array): boolean {
    const start = this.#start(at);
    for (let index = 0; index < beginning.length; index += 1)
      if (this.#bytes[start + index] !== beginning[index]) return false;
    return true;
  }

  /** Those from one number up to another, of the same bytes. */
  part(from: number, to = this.count): Lines {
    return new Lines(this.#bytes, this.#starts.subarray(from, to + 1));
  }

  /** The same with bytes of their own, so that they hold no others in memory. */
  kept(): Lines {
    const from = this.#start(0);
    const bytes = Buffer.from(this.#bytes.subarray(from, this.#start(this.count)));
    return new Lines(
      bytes,
      this.#starts.map((start) => start - from),
    );
  }

  /** The numbers of those that are not the same in `other`, which has as many. */
  differing(other: Lines): readonly number[] {
    const numbers: number[] = [];
    const compare = (from: number, to: number): void => {
      if (this.#areSame(other, from, to)) return;
      if (to - from === 1) {
        numbers.push(from);
        return;
      }
      const middle = (from + to) >> 1;
      compare(from, middle);
      compare(middle, to);
    };
    compare(0, this.count);
    return numbers;
  }

  /** The same bytes are the same lines, for there are as many. */
  #areSame(other: Lines, from: number, to: number): boolean {
    const [start, end] = [this.#start(from), this.#start(to)];
    const [otherStart, otherEnd] = [other.#start(from), other.#start(to)];
    return (
      end - start === otherEnd - otherStart &&
      this.#bytes.compare(other.#bytes, otherStart, otherEnd, start, end) === 0
    );
  }

  #start(at: number): number {
    return this.#starts[at] ?? this.#bytes.length;
  }
}
