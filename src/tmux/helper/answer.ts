import { type HelperAnswer, HelperError } from '../member-helper.ts';
import { GrowingLines, type Lines } from './lines.ts';

/**
 * The bytes of one answer of the helper, until its end record.
 *
 * An answer is whole when its last line is an `end` that fits: the sequence number asked for, and as
 * many rows and bytes as came. Short of that nothing of it is believed. Where its lines begin is looked
 * for as it comes, so that little is left to do at its end; nothing is decoded until somebody asks, for
 * most answers equal the one before.
 */
export const maxAnswerBytes = 1 << 20;
/** `begin` and `end` around the rows, and a `fail`. */
const frameBytes = 8_192;
const lf = 0x0a;
const fail = Buffer.from('fail\t');

export class AnswerBytes {
  readonly #sequence: number;
  readonly #request: string;
  readonly #lines = new GrowingLines();

  /** `request` is the first word, which the `begin` line repeats. */
  constructor(sequence: number, request: string) {
    this.#sequence = sequence;
    this.#request = request;
  }

  get bytes(): number {
    return this.#lines.byteLength;
  }

  /** True once the end record is there. @throws HelperError OUTPUT_TOO_LARGE */
  push(chunk: Buffer): boolean {
    if (this.bytes + chunk.length > maxAnswerBytes + frameBytes) {
      throw new HelperError('OUTPUT_TOO_LARGE', 'the helper answered more than 1 MiB');
    }
    this.#lines.push(chunk);
    return chunk.at(-1) === lf && this.#lines.last.startsWith('end\t');
  }

  /** @throws HelperError MALFORMED_ANSWER */
  answer(): HelperAnswer {
    const all = this.#lines.all();
    if (all.count < 2 || all.text(0) !== `begin\t${this.#sequence}\t${this.#request}`) {
      throw malformed('it does not begin as asked');
    }
    const rows = all.part(1, all.count - 1);
    const end = `end\t${this.#sequence}\t${rows.count}\t${rows.byteLength}\n`;
    if (all.part(all.count - 1).toString() !== end) {
      throw malformed('its end record does not fit what came');
    }
    const last = rows.count - 1;
    if (last < 0 || !rows.begins(last, fail)) return lazyAnswer(rows, undefined);
    return lazyAnswer(rows.part(0, last), rows.text(last));
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
