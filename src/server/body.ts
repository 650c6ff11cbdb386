import { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** The body is longer than is read: it was not read to its end. */
export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError';
}

/** What is discarded of a body too large, so that its sender comes to read why. */
const discardedBytes = 1_048_576;
const discardedMs = 1_000;
/** A body that is announced with no more is kept as it comes; any other is a stream. */
const smallBytes = 65_536;

/** How long the body is said to be; 0 where nothing is said. */
export function announced({ headers }: IncomingMessage): number {
  return Number(headers['content-length'] ?? 0);
}

/**
 * A request whose body, when it is small, is taken piece by piece from the parser. A stream between,
 * with its listeners and its turns of the event loop, would cost more than all the rest of an answer
 * that is given again.
 */
export class PostedRequest extends IncomingMessage {
  readonly #pieces: Buffer[] = [];
  #isSmall: boolean | undefined;
  #asked: PromiseWithResolvers<Buffer> | undefined;

  get isSmall(): boolean {
    this.#isSmall ??= Number(this.headers['content-length']) <= smallBytes;
    return this.#isSmall;
  }

  /** What the parser calls with each piece, and with null at the end, when `complete` is set. */
  override push(piece: Buffer | null): boolean {
    if (!this.isSmall) return super.push(piece);
    if (piece === null) {
      this.#asked?.resolve(this.#whole());
      return super.push(null);
    }
    this.#pieces.push(piece);
    return true;
  }

  /** The body of one that is small; at once where it is there. */
  smallBody(): Buffer | Promise<Buffer> {
    if (this.complete) return this.#whole();
    if (this.destroyed) throw brokenOff();
    this.#asked ??= Promise.withResolvers();
    return this.#asked.promise;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.complete) this.#asked?.reject(brokenOff());
    super._destroy(error, done);
  }

  #whole(): Buffer {
    const [first] = this.#pieces;
    return first !== undefined && this.#pieces.length === 1 ? first : Buffer.concat(this.#pieces);
  }
}

/**
 * The whole body, of `most` bytes at most.
 * @throws BodyTooLargeError when it is longer and what follows is discarded, up to a bound: closing
 * on bytes that nobody has read would reset the connection, and the answer with it
 */
export function readBody(request: IncomingMessage, most: number): Buffer | Promise<Buffer> {
  // Its sender waits to be told to send it.
  if (request.headers.expect !== undefined && announced(request) > most) throw tooLarge(most);
  if (!(request instanceof PostedRequest && request.isSmall)) return readStream(request, most);
  if (announced(request) <= most) return request.smallBody();
  return discarded(request, most);
}

async function discarded(request: PostedRequest, most: number): Promise<never> {
  await Promise.race([request.smallBody(), sleep(discardedMs, undefined, { ref: false })]);
  throw tooLarge(most);
}

function readStream(request: IncomingMessage, most: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let pieces: Buffer[] = [];
    let length = 0;
    let enough: NodeJS.Timeout | undefined;
    const stop = () => {
      request.pause();
      reject(tooLarge(most));
    };
    const discard = () => {
      pieces = [];
      enough ??= setTimeout(stop, discardedMs);
    };
    if (announced(request) > most) discard();
    request.on('data', (piece: Buffer) => {
      length += piece.length;
      if (length > most) discard();
      if (enough === undefined) pieces.push(piece);
      else if (length > most + discardedBytes) stop();
    });
    request.on('end', () => {
      if (enough !== undefined) return reject(tooLarge(most));
      resolve(Buffer.concat(pieces));
    });
    request.on('error', reject);
    request.on('close', () => {
      clearTimeout(enough);
      if (!request.complete) reject(brokenOff());
    });
  });
}

function tooLarge(most: number): BodyTooLargeError {
  return new BodyTooLargeError(`The body has more than ${most} bytes.`);
}

function brokenOff(): Error {
  return new Error('the request was broken off');
}
