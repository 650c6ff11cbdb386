import type { IncomingMessage } from 'node:http';

/** The body is longer than is read: it was not read to its end. */
export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError';
}

/** What is discarded of a body too large, so that its sender comes to read why. */
const discardedBytes = 1_048_576;
const discardedMs = 1_000;

/** How long the body is said to be; 0 where nothing is said. */
export function announced({ headers }: IncomingMessage): number {
  return Number(headers['content-length'] ?? 0);
}

/**
 * The whole body, of `most` bytes at most.
 * @throws BodyTooLargeError when it is longer and what follows is discarded, up to a bound: closing
 * on bytes that nobody has read would reset the connection, and the answer with it
 */
export function readBody(request: IncomingMessage, most: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = () => reject(new BodyTooLargeError(`The body has more than ${most} bytes.`));
    const isAnnounced = announced(request) > most;
    // Its sender waits to be told to send it.
    if (isAnnounced && request.headers.expect !== undefined) return tooLarge();
    let pieces: Buffer[] = [];
    let length = 0;
    let enough: NodeJS.Timeout | undefined;
    const stop = () => {
      request.pause();
      tooLarge();
    };
    const discard = () => {
      pieces = [];
      enough ??= setTimeout(stop, discardedMs);
    };
    if (isAnnounced) discard();
    request.on('data', (piece: Buffer) => {
      length += piece.length;
      if (length > most) discard();
      if (enough === undefined) pieces.push(piece);
      else if (length > most + discardedBytes) stop();
    });
    request.on('end', () => {
      if (enough !== undefined) return tooLarge();
      resolve(pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces));
    });
    request.on('error', reject);
    request.on('close', () => {
      clearTimeout(enough);
      if (!request.complete) reject(new Error('the request was broken off'));
    });
  });
}
