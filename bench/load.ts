import { once } from 'node:events';
import { connect } from 'node:net';

/**
 * A closed loop of HTTP requests over kept connections: each sends its next request when the answer
 * to the last one is whole. It only counts bytes, so that it costs little beside what it measures.
 */
export interface Load {
  readonly port: number;
  readonly path: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly ms: number;
}

/** Requests a second. */
export async function requestsPerSecond(load: Load): Promise<number> {
  const end = performance.now() + load.ms;
  const started = performance.now();
  const counts = await Promise.all(Array.from({ length: load.connections }, () => loop(load, end)));
  const seconds = (performance.now() - started) / 1000;
  return counts.reduce((sum, count) => sum + count, 0) / seconds;
}

async function loop(load: Load, end: number): Promise<number> {
  const request = Buffer.from(
    [
      `POST ${load.path} HTTP/1.1`,
      `Host: 127.0.0.1:${load.port}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(load.body)}`,
      ...Object.entries(load.headers).map(([name, value]) => `${name}: ${value}`),
      '',
      load.body,
    ].join('\r\n'),
  );
  const socket = connect(load.port, '127.0.0.1').setNoDelay(true);
  await once(socket, 'connect');
  let count = 0;
  let missing = 0;
  let head = '';
  return await new Promise<number>((resolve, reject) => {
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed a connection')));
    socket.on('data', (data: Buffer) => {
      let rest = data;
      if (missing === 0) {
        head += rest.toString('latin1');
        const headEnd = head.indexOf('\r\n\r\n');
        if (headEnd < 0) return;
        const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
        if (!head.startsWith('HTTP/1.1 200') || length === undefined) {
          reject(new Error(`not a counted answer: ${head.slice(0, 500)}`));
          return;
        }
        missing = Number(length);
        rest = Buffer.from(head.slice(headEnd + 4), 'latin1');
        head = '';
      }
      missing -= rest.length;
      if (missing > 0) return;
      count += 1;
      if (performance.now() < end) socket.write(request);
      else {
        socket.removeAllListeners('close');
        socket.destroy();
        resolve(count);
      }
    });
    socket.write(request);
  });
}
