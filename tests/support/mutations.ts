import { rounds } from './tier.ts';

/**
 * Malformed input, made of valid input by a seed, so that every run can be had again: with
 * MUXWARDEN_TEST_SEED. Faster than a property by two orders, and without its shrinking.
 */
export const seed = Number(process.env.MUXWARDEN_TEST_SEED || Math.floor(Math.random() * 2 ** 31));

/** How many inputs of a kind; MUXWARDEN_TEST_INPUTS makes a piece of a long run, with a seed of its own. */
export function inputCount(short: number, long = 10_000_000): number {
  return Number(process.env.MUXWARDEN_TEST_INPUTS || rounds(short, long));
}

/** A whole number from 0 to below `most`. */
export type Random = (most: number) => number;

/** mulberry32. */
export function random(from: number): Random {
  let state = from >>> 0;
  return (most) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * most);
  };
}

/**
 * One of the valid inputs with 1 to 4 changes: a bit, a byte or a stretch lost, doubled, moved or
 * exchanged, a number or a word in its place, the end cut off, the middle of another input put in.
 */
export function mutated(valid: readonly Buffer[], words: readonly Buffer[], next: Random): Buffer {
  const pick = (of: readonly Buffer[]) => of[next(of.length)] ?? Buffer.alloc(0);
  let bytes = Buffer.from(pick(valid));
  for (let left = 1 + next(4); left > 0; left -= 1) {
    const at = next(bytes.length + 1);
    const end = Math.min(bytes.length, at + 1 + next(12));
    const [before, stretch, after] = [
      bytes.subarray(0, at),
      bytes.subarray(at, end),
      bytes.subarray(end),
    ];
    const kind = next(9);
    if (kind === 0) bytes = Buffer.concat([before, after]);
    else if (kind === 1) bytes = Buffer.concat([before, stretch, stretch, after]);
    else if (kind === 2) bytes = Buffer.concat([after, stretch, before]);
    else if (kind === 3) bytes = Buffer.concat([before, pick(words), after]);
    else if (kind === 4) bytes = Buffer.concat([before, pick(words), stretch, after]);
    else if (kind === 5) bytes = Buffer.from(before);
    else if (kind === 6) bytes = Buffer.concat([before, Buffer.of(next(256)), stretch, after]);
    else if (kind === 7) bytes = Buffer.concat([before, pick(valid).subarray(next(40)), after]);
    else if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << next(8));
  }
  return bytes.length > 60_000 ? bytes.subarray(0, 60_000) : bytes;
}

/**
 * Until disposed, errors are made without their stack: of a million refusals nobody looks at it, and
 * under a test runner it takes longer than the reading.
 */
export function withoutStacks(): Disposable {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  return {
    [Symbol.dispose]() {
      Error.stackTraceLimit = stackTraceLimit;
    },
  };
}

const settled = 100_000;

/** What many inputs leave behind in the memory of this process: in MiB, from the 100,000th on. */
export class Leftover {
  #settled: number | undefined;

  after(inputs: number): void {
    if (inputs >= settled) this.#settled ??= process.memoryUsage.rss();
  }

  /** 0 for fewer. */
  get mebibytes(): number {
    if (this.#settled === undefined) return 0;
    return Math.max(0, Math.round((process.memoryUsage.rss() - this.#settled) / 2 ** 20));
  }
}
