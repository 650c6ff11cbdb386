import { join } from 'node:path';
import { type Child, startChild } from '../child.ts';
import { portOf } from './lab.ts';
import { subscribe } from './subscribing.ts';

/** The bare server in a process of its own; it waits until it is told to go on. */
export async function rawSockets(length: number, everyMs: number) {
  const argv = [join(import.meta.dirname, 'raw-sockets.ts'), String(length), String(everyMs)];
  const child: Child = await startChild(argv);
  return {
    pid: child.pid,
    subscribers: (count: number) =>
      subscribe({
        ...{ port: portOf(child.url), key: '', query: '', transport: 'raw' },
        variables: Array.from({ length: count }, () => ({})),
      }),
    send: (whether: boolean) => void process.kill(child.pid, whether ? 'SIGCONT' : 'SIGSTOP'),
    async [Symbol.asyncDispose]() {
      process.kill(child.pid, 'SIGCONT');
      await child[Symbol.asyncDispose]();
    },
  };
}
