import { execa } from 'execa';
import { tmuxBinary, type Version } from './tmux-server.ts';

/** The client of a version, for a server that the code under test has started. */
export interface TmuxClient {
  run(...command: string[]): Promise<string>;
  pid(): Promise<number>;
}

export function tmuxClient(version: Version, socket: string): TmuxClient {
  const run = async (...command: string[]) => {
    const { stdout } = await execa(
      tmuxBinary(version) ?? 'tmux',
      ['-u', '-S', socket, ...command],
      {
        extendEnv: false,
        env: { PATH: '/usr/bin:/bin', HOME: '/', TERM: 'xterm-256color', LC_CTYPE: 'C.UTF-8' },
        cwd: '/',
        timeout: 10_000,
      },
    );
    return stdout;
  };
  return { run, pid: async () => Number(await run('display-message', '-p', '#{pid}')) };
}
