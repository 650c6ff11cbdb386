import type { Outlet } from './outlet.ts';

const finalText = 0x81;
/** From here on a piece that many are sent is not copied for each of them. */
const large = 8_192;

interface Frame {
  readonly bytes: Buffer;
  readonly middle: Buffer;
  readonly end: Buffer;
  /** Where the beginning stands in it, and what follows that. */
  readonly from: number;
  readonly to: number;
}

/**
 * Sends frames of text, most of which differ in their beginning alone: then that is put into the frame
 * of before, unless a connection still holds it.
 */
export class TextFrames {
  #free: Frame | undefined;

  /** One unmasked frame (RFC 6455) whose UTF-8 is these three pieces, in one where they are small. */
  send(outlet: Outlet, begin: Buffer, middle: Buffer, end: Buffer): void {
    if (middle.length >= large) {
      const head = headOf(begin.length + middle.length + end.length);
      outlet.write(Buffer.concat([head, begin]), middle, end);
      return;
    }
    const frame = this.#frame(begin, middle, end);
    frame.bytes.set(begin, frame.from);
    this.#free = outlet.write(frame.bytes) ? frame : undefined;
  }

  #frame(begin: Buffer, middle: Buffer, end: Buffer): Frame {
    const free = this.#free;
    if (free?.middle === middle && free.end === end && free.to - free.from === begin.length)
      return free;
    const head = headOf(begin.length + middle.length + end.length);
    const bytes = Buffer.concat([head, begin, middle, end]);
    return { bytes, middle, end, from: head.length, to: head.length + begin.length };
  }
}

function headOf(length: number): Buffer {
  if (length < 126) return Buffer.from([finalText, length]);
  const head = Buffer.alloc(length < 65_536 ? 4 : 10);
  head[0] = finalText;
  if (length < 65_536) {
    head[1] = 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 127;
    head.writeUInt32BE(length, 6);
  }
  return head;
}
