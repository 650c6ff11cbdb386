import { once } from 'node:events';
import { connect } from 'node:net';

/** A message in one frame as a client sends it; masked with zeros, which leaves its bytes as they are. */
export function frame(payload: Buffer, opcode = 1): Buffer {
  const { length } = payload;
  const size = length < 126 ? [0x80 | length] : [0x80 | 126, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([0x80 | opcode, ...size, 0, 0, 0, 0]), payload]);
}

/** The same message in two frames. */
export function fragments(payload: Buffer, at: number): Buffer {
  const first = frame(payload.subarray(0, at));
  first[0] = 1;
  return Buffer.concat([first, frame(payload.subarray(at), 0)]);
}

export interface RawWebSocket {
  /** Bytes as they are. */
  send(bytes: Buffer): void;
  /** Texts of messages so far. */
  readonly texts: readonly string[];
  /** Resolves once `count` texts are there that `what` knows, or with false when it is closed before. */
  until(count: number, what: RegExp): Promise<boolean>;
  /** Waits for the end, ours or theirs; the code that the other one closed with, undefined where it said none. */
  end(): Promise<number | undefined>;
}

/** A WebSocket whose client does as it is told, right or wrong. */
export async function openRawWebSocket(
  port: number,
  headers: Readonly<Record<string, string>>,
): Promise<RawWebSocket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const texts: string[] = [];
  let code: number | undefined;
  let rest: Buffer = Buffer.alloc(0);
  const closed = new Promise<false>((resolve) => socket.once('close', () => resolve(false)));
  // Whoever is cut off in the middle of what it sends is told so, and the close follows.
  socket.on('error', () => undefined);
  socket.write(
    [
      'GET /graphql HTTP/1.1',
      `Host: 127.0.0.1:${port}`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      `Sec-WebSocket-Key: ${'A'.repeat(22)}==`,
      'Sec-WebSocket-Protocol: graphql-transport-ws',
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      '\r\n',
    ].join('\r\n'),
  );
  const [answer] = (await once(socket, 'data')) as [Buffer];
  const end = answer.indexOf('\r\n\r\n');
  if (!answer.toString('latin1').startsWith('HTTP/1.1 101 ') || end < 0)
    throw new Error(`no WebSocket: ${answer.toString('latin1').slice(0, 200)}`);
  const read = (piece: Buffer) => {
    rest = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    for (;;) {
      const short = (rest[1] ?? 0) & 0x7f;
      const head = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (rest.length < head) return;
      const length =
        short < 126
          ? short
          : Number(short === 126 ? rest.readUInt16BE(2) : rest.readBigUInt64BE(2));
      if (rest.length < head + length) return;
      const payload = rest.subarray(head, head + length);
      const opcode = (rest[0] ?? 0) & 0x0f;
      if (opcode === 1) texts.push(payload.toString());
      if (opcode === 8) {
        if (length >= 2) code ??= payload.readUInt16BE(0);
        // As the protocol wants it, or the other side waits for that.
        if (!socket.writableEnded) socket.end(frame(payload, 8));
      }
      rest = rest.subarray(head + length);
    }
  };
  read(answer.subarray(end + 4));
  socket.on('data', read);
  return {
    texts,
    send(bytes) {
      if (!socket.writableEnded) socket.write(bytes);
    },
    async until(count, what) {
      let [seen, found] = [0, 0];
      const there = () => {
        for (; seen < texts.length; seen += 1) if (what.test(texts[seen] ?? '')) found += 1;
        return found >= count;
      };
      while (!there()) {
        const more = once(socket, 'data').then(
          () => true,
          () => false,
        );
        if (!(await Promise.race([more, closed]))) return there();
      }
      return true;
    },
    async end() {
      if (!socket.writableEnded) socket.end(frame(Buffer.from([0x03, 0xe8]), 8));
      await closed;
      return code;
    },
  };
}
