import { type Bracket, resolveBracket } from './bracket.ts';
import { type BlockAnswer, closes, isNonceBlock, opens } from './control-block.ts';

/**
 * tmux control mode, from bytes to events; no I/O. Lines end in LF. `%begin T N F` opens a block,
 * and only `%end` or `%error` with the same three values closes it; between blocks, a line is a
 * notification. Bytes below 0x20 and the backslash stand as `\ooo` in `%output`, all else is raw.
 *
 * A block's body is not escaped, so whoever writes on the captured screen can write `%end T N F`
 * too. Blocks that hold such text are bracketed: from their `%begin` on, every line is held until
 * the block that holds exactly the closing nonce, and only then read from the back (bracket.ts).
 *
 * Always holds: events come in the order of the bytes, however these are cut; memory is bounded by
 * the longest line plus what a bracket may hold.
 */
export interface ControlSink {
  /** `data` is a view into the parser's input: copy what is to be kept. */
  output(pane: number, data: Uint8Array): void;
  /** `name` without its `%`; `rest` is what follows the first space, untrusted. */
  notification(name: string, rest: string): void;
  /** A block opened that a command of ours caused: the bracket that it begins, if any. */
  opened(): Bracket | undefined;
  /** A block of ours is complete. */
  block(answer: BlockAnswer): void;
  /** A bracket is complete. */
  bracket(answers: readonly BlockAnswer[]): void;
}

/** This connection can't be understood any more; nothing of it may be believed from here on. */
export class ControlProtocolError extends Error {
  override readonly name = 'ControlProtocolError';
}

/** `%output` lines stay below 17 KiB; rows of a capture, below 1 MiB on any screen we capture. */
const longestLine = 1 << 20;
const mostHeld = 16 << 20;
const longestBody = 1 << 16;

const lf = 0x0a;
const space = 0x20;
const percent = 0x25;
const backslash = 0x5c;
const output = Buffer.from('%output %');
const extendedOutput = Buffer.from('%extended-output %');

/** Notifications that tmux was seen to print inside the block of a command. */
const insideBlocks = /^%(?:sessions-changed|(?:pause|continue) %\d+|message .*)$/s;

export class ControlParser {
  readonly #sink: ControlSink;
  #partial: Buffer[] = [];
  #partialLength = 0;
  #open: {
    readonly guard: string;
    readonly ours: boolean;
    lines: Buffer[];
    length: number;
  } | null = null;
  #held: { readonly bracket: Bracket; readonly lines: Buffer[]; length: number } | null = null;

  constructor(sink: ControlSink) {
    this.#sink = sink;
  }

  /**
   * Takes `chunk` over: `%output` is unescaped inside it.
   * @throws ControlProtocolError
   */
  push(chunk: Buffer): void {
    let start = 0;
    if (this.#partialLength > 0) {
      const end = chunk.indexOf(lf);
      this.#keep(end < 0 ? chunk : chunk.subarray(0, end));
      if (end < 0) return;
      const line = Buffer.concat(this.#partial);
      this.#partial = [];
      this.#partialLength = 0;
      this.#line(line, 0, line.length);
      start = end + 1;
    }
    for (;;) {
      const end = chunk.indexOf(lf, start);
      if (end < 0) break;
      this.#line(chunk, start, end);
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(Buffer.from(chunk.subarray(start)));
  }

  #keep(part: Buffer): void {
    this.#partialLength += part.length;
    if (this.#partialLength > longestLine) throw new ControlProtocolError('A line is too long.');
    this.#partial.push(part);
  }

  #line(bytes: Buffer, start: number, end: number): void {
    if (this.#held !== null) this.#hold(Buffer.from(bytes.subarray(start, end)));
    else if (this.#open !== null) this.#body(Buffer.from(bytes.subarray(start, end)));
    // Other lines between blocks are the tails of names that hold a newline (tmux 3.1c): no event.
    else if (bytes[start] === percent) this.#between(bytes, start, end);
  }

  #between(bytes: Buffer, start: number, end: number): void {
    if (startsWith(bytes, start, end, output)) {
      const at = bytes.indexOf(space, start + output.length);
      if (at < 0 || at >= end) return;
      this.#output(bytes, start + output.length, at, at + 1, end);
      return;
    }
    if (startsWith(bytes, start, end, extendedOutput)) {
      const at = bytes.indexOf(space, start + extendedOutput.length);
      // Between the id and the colon tmux may put more words than the age one day.
      const colon = at < 0 ? -1 : bytes.subarray(at, Math.min(end, at + 200)).indexOf(' : ');
      if (colon < 0) return;
      this.#output(bytes, start + extendedOutput.length, at, at + colon + 3, end);
      return;
    }
    const line = bytes.toString('utf8', start, end);
    const begin = opens(line);
    if (begin === undefined) this.#notify(line);
    else this.#begin(begin.guard, begin.ours, line);
  }

  #notify(line: string): void {
    const at = line.indexOf(' ');
    if (at < 0) this.#sink.notification(line.slice(1), '');
    else this.#sink.notification(line.slice(1, at), line.slice(at + 1));
  }

  #output(bytes: Buffer, idStart: number, idEnd: number, start: number, end: number): void {
    let pane = 0;
    for (let at = idStart; at < idEnd; at++) {
      const digit = (bytes[at] ?? 0) - 0x30;
      if (digit < 0 || digit > 9 || idEnd - idStart > 10) return;
      pane = pane * 10 + digit;
    }
    const stop = unescapeOctal(bytes, start, end);
    if (stop > start) this.#sink.output(pane, bytes.subarray(start, stop));
  }

  /** Flags 0: the block of the attach itself, or of a hook of the member's. Not an answer to us. */
  #begin(guard: string, ours: boolean, line: string): void {
    const bracket = ours ? this.#sink.opened() : undefined;
    if (bracket === undefined) this.#open = { guard, ours, lines: [], length: 0 };
    else this.#held = { bracket, lines: [Buffer.from(line)], length: line.length };
  }

  #body(line: Buffer): void {
    const open = this.#open;
    if (open === null) return;
    const closing = closes(line, open.guard);
    if (closing !== undefined) {
      if (closing.at > 0) open.lines.push(line.subarray(0, closing.at));
      this.#open = null;
      if (open.ours) this.#sink.block({ ok: closing.ok, lines: open.lines });
      return;
    }
    const text = line[0] === percent && line.length < 1_024 ? line.toString('utf8') : '';
    if (insideBlocks.test(text)) {
      this.#notify(text);
      return;
    }
    open.length += line.length + 1;
    if (open.length > longestBody) throw new ControlProtocolError('An answer is too large.');
    open.lines.push(line);
  }

  #hold(line: Buffer): void {
    const held = this.#held;
    if (held === null) return;
    held.length += line.length + 1;
    if (held.length > mostHeld) throw new ControlProtocolError('An answer is too large.');
    held.lines.push(line);
    if (!isNonceBlock(held.lines, held.lines.length - 2, held.bracket.last)) return;
    this.#held = null;
    const resolved = resolveBracket(held.lines.slice(0, -3), held.bracket.nonces);
    if (resolved === undefined) throw new ControlProtocolError('An answer has no end.');
    for (const other of resolved.before) this.#between(other, 0, other.length);
    this.#sink.bracket(resolved.answers);
    for (const other of resolved.after) this.#between(other, 0, other.length);
  }
}

/** Undoes `\ooo` in place; gives the new end. A backslash that starts no such triple stays. */
export function unescapeOctal(bytes: Buffer, start: number, end: number): number {
  let from = start;
  while (from < end && bytes[from] !== backslash) from++;
  let to = from;
  while (from < end) {
    const byte = bytes[from] ?? 0;
    if (byte === backslash && from + 3 < end) {
      const high = (bytes[from + 1] ?? 0) - 0x30;
      const middle = (bytes[from + 2] ?? 0) - 0x30;
      const low = (bytes[from + 3] ?? 0) - 0x30;
      // Each in its range, negative ones included: no bit above the allowed ones is set.
      if ((high & ~3) === 0 && (middle & ~7) === 0 && (low & ~7) === 0) {
        bytes[to++] = (high << 6) | (middle << 3) | low;
        from += 4;
        continue;
      }
    }
    bytes[to++] = byte;
    from++;
  }
  return to;
}

function startsWith(bytes: Buffer, start: number, end: number, word: Buffer): boolean {
  // The second letter alone tells `%output` from nearly all else.
  if (bytes[start + 1] !== word[1] || end - start < word.length) return false;
  return bytes.compare(word, 0, word.length, start, start + word.length) === 0;
}
