import { execa } from 'execa';
import { eventually, type TmuxServer } from './tmux-server.ts';

/** A control client of somebody else's. */
export async function attach(tmux: TmuxServer): Promise<AsyncDisposable> {
  const client = execa(tmux.binary, ['-S', tmux.socket, '-C', 'attach', '-t', 'main'], {
    stdin: 'pipe',
    stdout: 'ignore',
    reject: false,
  });
  await eventually(async () => (await tmux.run('list-clients')) !== '', 'somebody is attached');
  return {
    async [Symbol.asyncDispose]() {
      client.stdin.end();
      await client;
    },
  };
}
