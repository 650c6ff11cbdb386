import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/**
 * The requests of each connection that are not answered yet. Answers have no names: whatever else is
 * written while one is due is read as that one, so it is not written.
 */
export class Turns {
  readonly #due = new WeakMap<Duplex, Set<ServerResponse>>();

  /** Until it is closed this answer is due on the connection of its request. */
  begin(response: ServerResponse): void {
    const { socket } = response.req;
    const due = this.#due.get(socket) ?? new Set();
    this.#due.set(socket, due.add(response));
    response.once('close', () => due.delete(response));
  }

  areDue(socket: Duplex): boolean {
    return (this.#due.get(socket)?.size ?? 0) > 0;
  }

  /**
   * Ends a connection on which no further request can be read, and says so unless that would stand for
   * the answer to a request that came whole before: whoever sent that one learns that it has none.
   */
  break(socket: Duplex, { code }: NodeJS.ErrnoException): void {
    const due = [...(this.#due.get(socket) ?? [])];
    const isItsTurn = due.every(({ req, headersSent }) => !req.complete && !headersSent);
    if (socket.writable && isItsTurn)
      socket.write(
        `HTTP/1.1 ${reasons[code ?? ''] ?? '400 Bad Request'}\r\nConnection: close\r\n\r\n`,
      );
    socket.destroy();
  }
}

/** As Node says them where nobody else does. */
const reasons: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};
