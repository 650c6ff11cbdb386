import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { execa, type Result } from 'execa';
import { startTmux, type TmuxServer, type Version } from '../support/tmux-server.ts';
import { claim, makeAccounts, removeLab, removeLeftovers, rootOf, type User } from './accounts.ts';
import { type Installation, install } from './installation.ts';
import { type LiveProcess, processesWhere } from './processes.ts';
import { type Service, type ServiceOptions, startService } from './service.ts';

/**
 * A machine with members, for tests of system mode: real Linux users, the helper at a path that root
 * owns, a rule for sudo, and the service under an account of its own. Needs root. All of it is removed
 * at the end, and what a killed run left is removed at the start.
 */
export interface Lab extends AsyncDisposable {
  readonly id: string;
  readonly users: Readonly<Record<MemberName | 'service', User>>;
  readonly installation: Installation;
  /** Runs a program as that user, in an environment as a login's; never rejects. */
  runAs(
    user: User,
    argv: readonly string[],
    options?: RunOptions,
  ): Promise<Result<{ reject: false }>>;
  /** A tmux server of that user, at its default path unless a name is given. Ended with the lab. */
  startTmuxAs(user: User, options?: TmuxOptions): Promise<TmuxServer>;
  startService(options?: ServiceOptions): Promise<Service>;
  processesOf(user: User): Promise<readonly LiveProcess[]>;
  /** Every sudo that now runs for this lab. */
  sudoProcesses(): Promise<readonly LiveProcess[]>;
  /** The lines of sudo's own record; reads are in it only with `logReads`. */
  sudoLog(): Promise<readonly string[]>;
}

export const memberNames = ['alice', 'bob', 'carol'] as const;
export type MemberName = (typeof memberNames)[number];

export interface RunOptions {
  readonly input?: string;
  readonly timeout?: number;
  readonly environment?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface TmuxOptions {
  readonly version?: Version;
  readonly name?: string;
  readonly command?: readonly string[];
  readonly session?: string;
}

/** `logReads` has sudo record each call, for tests that count them. */
export async function startLab(options: { readonly logReads?: boolean } = {}): Promise<Lab> {
  await removeLeftovers();
  const id = randomBytes(3).toString('hex');
  await claim(id);
  const ends: AsyncDisposable[] = [];
  try {
    const users = await makeAccounts(id, memberNames);
    const installation = await install(id, users.service, options.logReads ?? false);
    const ours = ({ command }: LiveProcess) =>
      /^(\S*\/)?sudo /.test(command) && command.includes(`mwl${id}-`);
    return {
      id,
      users,
      installation,
      runAs,
      startTmuxAs: async (user, tmux = {}) => {
        const server = await startTmuxAs(user, tmux);
        ends.push(server);
        return server;
      },
      startService: async (serviceOptions) => {
        const service = await startService(installation, users.service, serviceOptions);
        ends.push(service);
        return service;
      },
      processesOf: (user) => processesWhere(({ uid }) => uid === user.uid),
      sudoProcesses: () => processesWhere(ours),
      sudoLog: async () =>
        (await readFile(installation.sudoLog, 'utf8').catch(() => '')).split('\n').filter(Boolean),
      async [Symbol.asyncDispose]() {
        for (const end of ends.reverse()) await end[Symbol.asyncDispose]();
        await removeLab(id);
      },
    };
  } catch (cause) {
    await removeLab(id);
    throw new Error(`no lab below ${rootOf(id)}`, { cause });
  }
}

export async function runAs(user: User, argv: readonly string[], options: RunOptions = {}) {
  const [file = '', ...args] = argv;
  return execa(file, args, {
    uid: user.uid,
    gid: user.gid,
    cwd: options.cwd ?? '/',
    extendEnv: false,
    env: { ...loginOf(user), ...options.environment },
    timeout: options.timeout ?? 20_000,
    reject: false,
    ...(options.input === undefined ? { stdin: 'ignore' } : { input: options.input }),
  });
}

export const loginOf = (user: User) => ({
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: user.home,
  USER: user.name,
  LOGNAME: user.name,
  SHELL: '/bin/sh',
});

async function startTmuxAs(user: User, options: TmuxOptions): Promise<TmuxServer> {
  const directory = `/tmp/tmux-${user.uid}`;
  await execa('install', ['-d', '-m', '0700', '-o', user.name, '-g', user.name, directory]);
  return startTmux({ ...options, directory, user, cwd: user.home });
}
