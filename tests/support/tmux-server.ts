import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { processTable, signalSeen } from './process-table.ts';
import { endServersWithThisProcess } from './reaper.ts';

/**
 * Real tmux servers for tests: a private socket in a 0700 directory with a short path, no
 * configuration, a built environment. Ends only what it started.
 */

/** Where tests/setup/tmux-versions puts them: as root, or into the user's own cache folder. */
const versionsDirs = process.env.MUXWARDEN_TEST_TMUX_VERSIONS
  ? [process.env.MUXWARDEN_TEST_TMUX_VERSIONS]
  : [
      '/var/cache/muxwarden/tmux-versions',
      join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'muxwarden/tmux-versions'),
    ];

/** A slot for each class: ≤ 3.2, 3.3–3.5 (two), 3.6–3.7, ≥ 3.8. Its suite may have moved on within the class. */
export const versions = ['3.1c', '3.3a', '3.5a', '3.7c', '3.8'] as const;
export type Version = (typeof versions)[number];

/** The binary of that version, or undefined when this machine lacks it. */
export function tmuxBinary(version: Version): string | undefined {
  return versionsDirs.map((dir) => join(dir, version, 'bin/tmux')).find((path) => existsSync(path));
}

export const presentVersions = versions.filter((version) => tmuxBinary(version) !== undefined);

export interface TmuxServer extends AsyncDisposable {
  readonly binary: string;
  readonly directory: string;
  readonly socket: string;
  /** Process id of the server as tmux itself says. */
  pid(): Promise<number>;
  /** Runs a tmux command by this server's own client; rejects when it fails. Gives stdout. */
  run(...command: string[]): Promise<string>;
  /** `kill-server`, and back when the process is gone: until then its path may still lead to it. */
  end(): Promise<void>;
}

export interface StartOptions {
  /** Default: the machine's own tmux. */
  readonly version?: Version;
  /** This very file instead. */
  readonly binary?: string;
  /** Put the socket into this directory (which stays) instead of one of its own. */
  readonly directory?: string;
  readonly name?: string;
  readonly columns?: number;
  readonly rows?: number;
  readonly command?: readonly string[];
  readonly session?: string;
  readonly cwd?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Whose server it is; as root only. */
  readonly user?: { readonly uid: number; readonly gid: number; readonly home: string };
}

/** Starts a server with one session (`main`, 80x24, a `sh` that does nothing until told). */
export async function startTmux(options: StartOptions = {}): Promise<TmuxServer> {
  const known = options.version === undefined ? 'tmux' : tmuxBinary(options.version);
  const binary = options.binary ?? known;
  if (binary === undefined) throw new Error(`tmux ${options.version} is not on this machine`);
  const directory = options.directory ?? (await mkdtemp(join(tmpdir(), 'mw-')));
  const socket = join(directory, options.name ?? 'default');
  endServersWithThisProcess(socket);
  const client = (command: readonly string[]) =>
    execa(binary, ['-u', '-S', socket, '-f', '/dev/null', ...command], {
      extendEnv: false,
      env: {
        PATH: '/usr/local/bin:/usr/bin:/bin',
        HOME: options.user?.home ?? process.env.HOME ?? '/',
        TERM: 'xterm-256color',
        LC_CTYPE: 'C.UTF-8',
        SHELL: '/bin/sh',
        ...options.environment,
      },
      cwd: options.cwd ?? '/',
      ...(options.user && { uid: options.user.uid, gid: options.user.gid }),
      timeout: 10_000,
      stripFinalNewline: true,
    });
  await client([
    'new-session',
    '-d',
    '-s',
    options.session ?? 'main',
    '-x',
    String(options.columns ?? 80),
    '-y',
    String(options.rows ?? 24),
    ...(options.command ?? ['exec sh']),
  ]);
  const pid = Number((await client(['display-message', '-p', '#{pid}'])).stdout);
  const started = await startTicks(pid);
  return {
    binary,
    directory,
    socket,
    pid: async () => Number((await client(['display-message', '-p', '#{pid}'])).stdout),
    run: async (...command) => (await client(command)).stdout,
    async end() {
      const process = Number((await client(['display-message', '-p', '#{pid}'])).stdout);
      const life = await startTicks(process);
      await client(['kill-server']);
      const ended = async () => (await startTicks(process)) !== life;
      await eventually(ended, `the tmux server ${process} to be gone`);
    },
    async [Symbol.asyncDispose]() {
      if ((await startTicks(pid)) === started) {
        signalSeen(pid, 'SIGCONT');
        signalSeen(pid, 'SIGKILL');
      }
      // A restart by the code under test leaves another process on the same path, perhaps of another version.
      for (const { pid: left, words } of await processTable()) {
        if (words.includes(socket)) signalSeen(left, 'SIGKILL');
      }
      if (options.directory === undefined) await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Start time of a process in clock ticks since boot; undefined when it is gone or a zombie. */
export async function startTicks(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (stat === undefined) return undefined;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
}

/** Looks every 20 ms until `look` gives something true; fails with `what` after `ms`. */
export async function eventually<T>(
  look: () => T | Promise<T>,
  what: string,
  ms = 10_000,
): Promise<NonNullable<T>> {
  const end = performance.now() + ms;
  for (;;) {
    const seen = await look();
    if (seen) return seen as NonNullable<T>;
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
