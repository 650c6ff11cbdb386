import { once } from 'node:events';
import { execa } from 'execa';

/** A server in a process of its own, up to the first address that it prints. */
export interface Child extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** From the start of the process to its address, milliseconds. */
  readonly startMs: number;
}

export async function startChild(
  argv: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Child> {
  const started = performance.now();
  const child = execa(process.execPath, argv, {
    extendEnv: false,
    env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent', ...environment },
    stdin: 'ignore',
    all: true,
    reject: false,
    buffer: false,
    forceKillAfterDelay: 15_000,
  });
  let text = '';
  let url: string | undefined;
  child.all?.setEncoding('utf8');
  while (url === undefined) {
    const [part] = await Promise.race([
      once(child.all ?? child.stdout, 'data'),
      child.then(({ exitCode }) => {
        throw new Error(`${argv.join(' ')} ended with ${exitCode}:\n${text}`);
      }),
    ]);
    text += part;
    url = /http:\/\/[\w.]+:\d+/.exec(text)?.[0];
  }
  const startMs = performance.now() - started;
  child.all?.resume();
  return {
    url,
    pid: child.pid ?? 0,
    startMs,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await child;
    },
  };
}
