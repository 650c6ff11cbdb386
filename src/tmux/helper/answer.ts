import { type HelperAnswer, HelperError } from '../member-helper.ts';
import { Lines } from './lines.ts';

/**
 * The bytes of one answer of the helper, until its end record.
 *
 * An answer is whole when its last line is an `end` that fits: the sequence number asked for, and as
 * many rows and bytes as came. Short of that nothing of it is believed. It is neither split nor
 * decoded until somebody asks: most answers equal the one before.
 */
export const maxAnswerBytes = 1 << 20;
/** `begin` and `end` around the rows, and a `fail`. */
const frameBytes = 8_192;
const endLineBytes = 80;
const lf = 0x0a;
const fail = Buffer.from('fail\t');

export class AnswerBytes {
  readonly #sequence: number;
  readonly #request: string;
  readonly #chunks: Buffer[] = [];
  #tail: Buffer = Buffer.alloc(0);
  #bytes = 0;

  /** `request` is the first word, which the `begin` line repeats. */
  constructor(sequence: number, request: string) {
    this.#sequence = sequence;
    this.#request = request;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** True once the end record is there. @throws HelperError OUTPUT_TOO_LARGE */
  push(chunk: Buffer): boolean {
    this.#bytes += chunk.length;
    if (this.#bytes > maxAnswerBytes + frameBytes) {
      throw new HelperError('OUTPUT_TOO_LARGE', 'the helper answered more than 1 MiB');
    }
    this.#chunks.push(chunk);
    this.#tail = Buffer.concat([this.#tail, chunk.subarray(-endLineBytes)]).subarray(-endLineBytes);
    return this.#endsWithEnd();
  }

  #endsWithEnd(): boolean {
    const tail = this.#tail;
    if (tail.length < 5 || tail[tail.length - 1] !== lf) return false;
    const before = tail.lastIndexOf(lf, tail.length - 2);
    return tail.subarray(before + 1).indexOf('end\t') === 0;
  }

  /** @throws HelperError MALFORMED_ANSWER */
  answer(): HelperAnswer {
    const bytes = Buffer.concat(this.#chunks);
    const beginEnd = bytes.indexOf(lf) + 1;
    const endStart = bytes.lastIndexOf(lf, bytes.length - 2) + 1;
    const begin = bytes.toString('latin1', 0, Math.max(0, beginEnd - 1));
    if (begin !== `begin\t${this.#sequence}\t${this.#request}` || endStart < beginEnd) {
      throw malformed('it does not begin as asked');
    }
    const counted = bytes.subarray(beginEnd, endStart);
    const lines = Lines.of(counted);
    const end = `end\t${this.#sequence}\t${lines.count}\t${counted.length}\n`;
    if (bytes.toString('latin1', endStart) !== end) {
      throw malformed('its end record does not fit what came');
    }
    const last = lines.count - 1;
    if (last < 0 || !lines.begins(last, fail)) return lazyAnswer(lines, undefined);
    return lazyAnswer(lines.part(0, last), lines.text(last));
  }
}

function lazyAnswer(lines: Lines, failLine: string | undefined): HelperAnswer {
  let rows: readonly (readonly string[])[] | undefined;
  const [, code, detail] = failLine?.split('\t') ?? [];
  return {
    lines,
    get rows() {
      rows ??= splitRows(lines.toString());
      return rows;
    },
    failure: failLine === undefined ? null : { code: code ?? '', detail: detail ?? '' },
  };
}

/** Rows of fields; the text ends with LF, or is empty. */
export function splitRows(text: string): readonly (readonly string[])[] {
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line) => line.split('\t'));
}

function malformed(what: string): HelperError {
  return new HelperError('MALFORMED_ANSWER', `the helper's answer can't be trusted: ${what}`);
}
