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
  /** What the first byte is counted as. */
  readonly #base: number;

  /** Of bytes whose lines begin at `starts`; the last of these is where the last line ends. */
  constructor(bytes: Buffer, starts: Uint32Array, base = 0) {
    this.#bytes = bytes;
    this.#starts = starts;
    this.#base = base;
  }

  static of(bytes: Buffer): Lines {
    const lines = new GrowingLines();
    lines.push(bytes);
    return lines.all();
  }

  get count(): number {
    return this.#starts.length - 1;
  }

  get byteLength(): number {
    return this.#start(this.count) - this.#start(0);
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

  /** The numbers of those that begin so. */
  beginningWith(beginning: Uint8Array): readonly number[] {
    const numbers: number[] = [];
    const [first] = beginning;
    for (let at = 0; at < this.count; at += 1) {
      if (this.#bytes[this.#start(at)] === first && this.begins(at, beginning)) numbers.push(at);
    }
    return numbers;
  }

  /** Those from one number up to another, of the same bytes. */
  part(from: number, to = this.count): Lines {
    return new Lines(this.#bytes, this.#starts.subarray(from, to + 1), this.#base);
  }

  /** The same with bytes of their own, so that they hold no others in memory. */
  kept(): Lines {
    const from = this.#start(0);
    const bytes = Buffer.from(this.#bytes.subarray(from, this.#start(this.count)));
    return new Lines(bytes, this.#starts.slice(), this.#base + from);
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
    return (this.#starts[at] ?? this.#base + this.#bytes.length) - this.#base;
  }
}

/** Bytes that come in parts; where lines begin is looked for in each part as it comes. */
export class GrowingLines {
  #bytes: Buffer = Buffer.allocUnsafe(1 << 12);
  #length = 0;
  #starts = new Uint32Array(1 << 6);
  /** How many line feeds came. */
  #feeds = 0;

  get byteLength(): number {
    return this.#length;
  }

  push(part: Buffer): void {
    const length = this.#length + part.length;
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(2 * length);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    part.copy(this.#bytes, this.#length);
    for (let at = part.indexOf(lf); at !== -1; at = part.indexOf(lf, at + 1)) {
      this.#feeds += 1;
      // Room for one that no line feed ends.
      if (this.#feeds + 1 >= this.#starts.length) {
        const larger = new Uint32Array(2 * this.#starts.length);
        larger.set(this.#starts);
        this.#starts = larger;
      }
      this.#starts[this.#feeds] = this.#length + at + 1;
    }
    this.#length = length;
  }

  /** The last line that a line feed ends. */
  get last(): string {
    const [from, to] = [this.#starts[this.#feeds - 1], this.#starts[this.#feeds]];
    return this.#feeds === 0 ? '' : this.#bytes.toString('latin1', from, to);
  }

  all(): Lines {
    const unended = this.#starts[this.#feeds] !== this.#length;
    if (unended) this.#starts[this.#feeds + 1] = this.#length;
    const count = this.#feeds + (unended ? 1 : 0);
    return new Lines(this.#bytes.subarray(0, this.#length), this.#starts.subarray(0, count + 1));
  }
}
