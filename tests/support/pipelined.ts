import { connect } from 'node:net';

export interface Answer {
  readonly status: number;
  /** It says that it is the last of its connection, so that what was sent after it was for nothing. */
  readonly isLast: boolean;
  readonly body: string;
}

export interface Answered {
  /** In turn, as many as are due, or fewer where the connection ended before. */
  readonly answers: readonly Answer[];
  /** What came after those until the connection ended. */
  readonly rest: string;
}

const hungMs = 20_000;

/**
 * Sends everything on one connection at once, and when as many answers are there as are due, what is
 * last. Then nothing more comes, and what the service does not end hangs.
 */
export function pipelined(
  port: number,
  bytes: Buffer,
  due: number,
  last: Buffer,
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const answers: Answer[] = [];
    let rest = '';
    socket.setTimeout(hungMs, () => {
      socket.destroy();
      reject(new Error(`no answer and no end: ${JSON.stringify(bytes.toString('latin1'))}`));
    });
    socket.on('data', (piece) => {
      rest += piece.toString('latin1');
      if (answers.length === due) return;
      rest = rest.slice(read(rest, due, answers));
      if (answers.length === due) socket.end(last);
    });
    // Reset, where it was closed before it took all: that is an end as well.
    socket.on('error', () => undefined);
    socket.once('close', () => resolve({ answers, rest }));
    socket.write(bytes);
  });
}

/** Takes the whole answers off the front. @returns how long they are */
function read(text: string, due: number, answers: Answer[]): number {
  let at = 0;
  while (answers.length < due) {
    const from = text.indexOf('\r\n\r\n', at) + 4;
    if (from < 4) return at;
    const head = text.slice(at, from);
    const end = from + Number(/\ncontent-length: (\d+)\r/i.exec(head)?.[1] ?? 0);
    if (!head.startsWith('HTTP/1.1 '))
      throw new Error(`no answer of HTTP: ${JSON.stringify(text)}`);
    if (text.length < end) return at;
    answers.push({
      status: Number(head.slice(9, 12)),
      isLast: /\nconnection: close\r/i.test(head),
      body: text.slice(from, end),
    });
    at = end;
  }
  return at;
}
