import { connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';

/** A way to a server on loopback that can be made slow, for what passes from then on. */
export interface ThrottlingProxy extends AsyncDisposable {
  /** The given URL, by way of it. */
  through(url: string): string;
  /** Each piece of this many bytes waits so long, in either direction; undefined: nothing does. */
  pace: { readonly bytes: number; readonly ms: number } | undefined;
}

export async function throttlingProxy(target: number): Promise<ThrottlingProxy> {
  const open = new Set<Socket>();
  const proxy: { pace: ThrottlingProxy['pace'] } = { pace: undefined };
  const slowly = () =>
    new Transform({
      async transform(all: Buffer, _, done) {
        for (let rest = all; rest.length > 0; ) {
          const { pace } = proxy;
          const piece = rest.subarray(0, pace?.bytes ?? rest.length);
          if (pace !== undefined) await wait(pace.ms);
          this.push(piece);
          rest = rest.subarray(piece.length);
        }
        done();
      },
    });
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    const both = [client, upstream];
    for (const socket of both) {
      open.add(socket);
      // Its other half is ended, so this one is over too.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        open.delete(socket);
        for (const each of both) each.destroy();
      });
    }
    client.pipe(slowly()).pipe(upstream);
    upstream.pipe(slowly()).pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return Object.assign(proxy, {
    through(url: string) {
      const way = new URL(url);
      way.port = String(address.port);
      return way.href;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}
