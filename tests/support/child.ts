import { execa } from 'execa';
import { startTicks } from './tmux-server.ts';

/** A Node.js process that runs a piece of a module and then does as told; ended when disposed. */
export interface Child extends AsyncDisposable {
  readonly pid: number;
  /** Everything it printed, line by line. */
  line(): Promise<string>;
  kill(signal: NodeJS.Signals): Promise<void>;
}

const root = new URL('../../', import.meta.url).href;

/** @param code a module; `root` is the URL of the repository, and it stays until it is killed */
export async function startChild(
  code: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Child> {
  const child = execa(
    process.execPath,
    [
      '--input-type=module',
      '--eval',
      `const root = ${JSON.stringify(root)};\n${code}\nsetInterval(() => {}, 60_000);`,
    ],
    { env: environment, stdin: 'ignore', stderr: 'inherit', reject: false, buffer: false },
  );
  const { pid } = child;
  if (pid === undefined) throw new Error('the child did not start');
  const started = await startTicks(pid);
  const lines = child.iterable();
  const iterator = lines[Symbol.asyncIterator]();
  const kill = async (signal: NodeJS.Signals) => {
    if ((await startTicks(pid)) === started) process.kill(pid, signal);
    await child;
  };
  return {
    pid,
    async line() {
      const next = await iterator.next();
      if (next.done) throw new Error('the child ended');
      return String(next.value);
    },
    kill,
    [Symbol.asyncDispose]: () => kill('SIGKILL'),
  };
}
