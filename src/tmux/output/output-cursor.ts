import { randomBytes } from 'node:crypto';

/**
 * A place in a pane's output: an epoch (an unbroken stretch of one log) and a byte offset in it.
 * To clients it is opaque: 16 bytes as base64url. Epochs are never used twice: they are counted
 * within one run of the service, and the run has a random name.
 */
export interface OutputCursor {
  readonly run: string;
  readonly epoch: number;
  readonly offset: number;
}

/** Where epochs come from; one for each run of the service. */
export class Epochs {
  readonly run: string;
  #last = 0;

  constructor(run: string = randomBytes(6).toString('hex')) {
    this.run = run;
  }

  next(): number {
    this.#last += 1;
    return this.#last;
  }
}

export function encodeCursor(cursor: OutputCursor): string {
  const bytes = Buffer.alloc(16);
  bytes.write(cursor.run, 0, 6, 'hex');
  bytes.writeUInt32BE(cursor.epoch, 6);
  bytes.writeUIntBE(cursor.offset, 10, 6);
  return bytes.toString('base64url');
}

/** Undefined for what we can't have made. */
export function decodeCursor(text: string): OutputCursor | undefined {
  if (!/^[\w-]{22}$/.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.toString('base64url') !== text) return undefined;
  return {
    run: bytes.toString('hex', 0, 6),
    epoch: bytes.readUInt32BE(6),
    offset: bytes.readUIntBE(10, 6),
  };
}
