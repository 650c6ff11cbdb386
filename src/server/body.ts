import type { IncomingMessage } from 'node:http';

/** The body is longer than is read: it was not read to its end. */
export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError';
}

/**
 * The whole body, of `most` bytes at most.
 * @throws BodyTooLargeError as soon as it is known to be longer
 */
export function readBody(request: IncomingMessage, most: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const tooLarge = () => {
      request.pause();
      reject(new BodyTooLargeError(`The body has more than ${most} bytes.`));
    };
    if (Number(request.headers['content-length'] ?? 0) > most) return tooLarge();
    const pieces: Buffer[] = [];
    let length = 0;
    request.on('data', (piece: Buffer) => {
      length += piece.length;
      if (length > most) return tooLarge();
      pieces.push(piece);
    });
    request.on('end', () =>
      resolve(pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces)),
    );
    request.on('error', reject);
    request.on('close', () => {
      if (!request.complete) reject(new Error('the request was broken off'));
    });
  });
}
