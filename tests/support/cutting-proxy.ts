import { connect, createServer, type Socket } from 'node:net';

/** A way to a server on loopback that breaks in the middle of whatever passes. */
export interface CuttingProxy extends AsyncDisposable {
  readonly url: string;
  /** Connections that were cut so far. */
  readonly cuts: number;
}

/**
 * Cuts every connection, by a reset and without a goodbye, after a number of answered bytes that
 * `allow` chooses for it; undefined lets it live.
 */
export async function cuttingProxy(
  target: string,
  allow: (cuts: number) => number | undefined,
): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let cuts = 0;
  const server = createServer((client) => {
    let rest = allow(cuts);
    const upstream = connect(Number(port), hostname);
    const cut = () => {
      client.resetAndDestroy();
      upstream.resetAndDestroy();
    };
    for (const socket of [client, upstream]) {
      open.add(socket);
      // Its other half is ended, so this one is over too.
      socket.on('error', cut);
      socket.on('close', () => {
        open.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    upstream.on('data', (bytes: Buffer) => {
      const passed = rest === undefined ? bytes : bytes.subarray(0, rest);
      if (rest !== undefined) rest -= passed.length;
      client.write(passed, () => {
        if (rest !== 0) return;
        rest = undefined;
        cuts += 1;
        cut();
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `http://127.0.0.1:${address.port}`,
    get cuts() {
      return cuts;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
