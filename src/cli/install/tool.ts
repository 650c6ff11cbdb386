import { execa } from 'execa';
import { CommandError } from '../command.ts';

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export interface Told {
  readonly exitCode?: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program of the system, wherever a root's PATH has it; never rejects. */
export function tool(file: string, ...words: readonly string[]): Promise<Told> {
  return execa(file, words, {
    ...{ extendEnv: false, env: { PATH: path, LC_ALL: 'C' }, cwd: '/' },
    ...{ stdin: 'ignore', reject: false, timeout: 60_000 },
  });
}

/** @throws CommandError with what it said */
export async function must(file: string, ...words: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await tool(file, ...words);
  if (exitCode === 0) return stdout;
  const said = `${stdout}\n${stderr}`.trim().split('\n').slice(-3).join(' ');
  throw new CommandError(`${[file, ...words].join(' ')}: ${said || `exit status ${exitCode}`}`);
}

export const isThere = async (file: string) =>
  (await tool('sh', '-c', 'command -v "$0"', file)).exitCode === 0;
