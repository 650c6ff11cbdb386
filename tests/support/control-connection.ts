import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ControlConnection } from '../../src/tmux/member-helper.ts';
import type { TmuxServer } from './tmux-server.ts';

/** `tmux -C attach` without a helper in between, for tests of what speaks over it. */
export async function attachControl(
  tmux: TmuxServer,
  session = 'main',
): Promise<ControlConnection & { readonly process: ChildProcessWithoutNullStreams }> {
  const version = (await tmux.run('display-message', '-p', '#{version}')).trim();
  const flags = version === '3.1c' ? [] : ['-f', 'ignore-size'];
  const process = spawn(
    tmux.binary,
    ['-u', '-S', tmux.socket, '-C', 'attach', '-t', session, ...flags],
    { env: { PATH: '/usr/bin:/bin', TERM: 'dumb', LC_CTYPE: 'C.UTF-8', HOME: '/' }, cwd: '/' },
  );
  const ended = once(process, 'exit').then(() => {});
  return {
    process,
    pid: process.pid ?? 0,
    version,
    input: process.stdin,
    output: process.stdout,
    ended,
    async [Symbol.asyncDispose]() {
      process.stdin.end();
      await ended;
    },
  };
}
