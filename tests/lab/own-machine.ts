import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa, type Result } from 'execa';
import { eventually } from '../support/tmux-server.ts';

/**
 * A machine of its own, with a real systemd: for what needs fixed names in /etc and /opt, or a service
 * manager. All of it is gone with its process 1, also when the test is killed.
 */
export interface OwnMachine extends AsyncDisposable {
  /** Process 1, as this machine numbers it. */
  readonly init: number;
  /** As root, in it; never rejects. */
  run(argv: readonly string[], options?: MachineRunOptions): Promise<Ran>;
  /** The same by a shell; rejects when it fails. Gives stdout. */
  sh(script: string, options?: MachineRunOptions): Promise<string>;
  /** The command line of this repository, in it. */
  muxwarden(words: readonly string[], options?: MachineRunOptions): Promise<Ran>;
  /** A path in it, as this machine can read it. */
  path(inside: string): string;
}

export type Ran = Result<{ reject: false }>;

export interface MachineRunOptions {
  /** By its name in the machine; its groups and environment as a login's. */
  readonly user?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly timeout?: number;
}

export const repository = join(import.meta.dirname, '../..');

export async function startOwnMachine(): Promise<OwnMachine> {
  const directory = join(tmpdir(), `mw-machine-${randomBytes(4).toString('hex')}`);
  await mkdir(directory);
  const script = join(import.meta.dirname, 'own-machine');
  const words = ['--pdeathsig', 'KILL', 'bash', script, directory, repository];
  const machine = execa('setpriv', words, { reject: false, all: true, stdin: 'ignore' });
  let ended = false;
  const end = machine.then((result) => {
    ended = true;
    return result;
  });
  const init = await eventually(async () => {
    if (ended) throw new Error(`no machine: ${(await end).all}`);
    const children = `/proc/${machine.pid}/task/${machine.pid}/children`;
    const pid = Number((await readFile(children, 'utf8').catch(() => '')).trim() || 0);
    if (pid === 0) return undefined;
    const state = await execa('nsenter', [...enter(pid), 'systemctl', 'is-system-running'], {
      reject: false,
    });
    return /^(running|degraded)/.test(state.stdout) ? pid : undefined;
  }, 'the machine runs');

  const run = ([...argv]: readonly string[], options: MachineRunOptions = {}) => {
    const { user, environment, input, timeout = 60_000 } = options;
    const as = user === undefined ? [] : ['runuser', '-u', user, '--'];
    return execa('nsenter', [...enter(init), ...as, ...argv], {
      cwd: '/',
      extendEnv: false,
      // Each of dozens of commands would compile the same again.
      env: { PATH: path, LC_ALL: 'C.UTF-8', NODE_COMPILE_CACHE: '/tmp/compiled', ...environment },
      reject: false,
      timeout,
      ...(input === undefined ? { stdin: 'ignore' as const } : { input }),
    });
  };
  return {
    init,
    run,
    async sh(text, options) {
      const result = await run(['sh', '-ec', text], options);
      if (result.exitCode !== 0)
        throw new Error(`${text}\n${result.exitCode}: ${result.stdout}\n${result.stderr}`);
      return result.stdout;
    },
    muxwarden: (argv, options) =>
      run(
        [join(repository, 'node_modules/.bin/node'), join(repository, 'bin/muxwarden.js'), ...argv],
        options,
      ),
    path: (inside) => `/proc/${init}/root${inside}`,
    async [Symbol.asyncDispose]() {
      process.kill(init, 'SIGKILL');
      await end;
      await rmdir(directory);
      await removeGroup(directory);
    },
  };
}

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const enter = (pid: number) => ['--target', String(pid), '--all', '--'];

async function removeGroup(directory: string): Promise<void> {
  const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n');
  const unified = mounts.map((line) => line.split(' ')).find(([, , type]) => type === 'cgroup2');
  const group = join(unified?.[1] ?? '', directory.split('/').at(-1) ?? '');
  const below = await readdir(group, { recursive: true, withFileTypes: true });
  const groups = below
    .filter((each) => each.isDirectory())
    .map((each) => join(each.parentPath, each.name));
  // Deepest first; the last of its processes may still be on their way out.
  for (const each of [...groups.sort((a, b) => b.length - a.length), group]) {
    await eventually(
      () =>
        rmdir(each).then(
          () => true,
          (cause: NodeJS.ErrnoException) => cause.code === 'ENOENT',
        ),
      `${each} is empty`,
    );
  }
}
