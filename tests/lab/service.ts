import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { type Client, connect } from '../support/graphql-over-http.ts';
import { eventually } from '../support/tmux-server.ts';
import type { User } from './accounts.ts';
import type { Installation } from './installation.ts';

/** The service in system mode, under its own account. */
export interface Service extends Client, AsyncDisposable {
  readonly url: string;
  readonly adminKey: string;
  readonly pid: number;
  readonly stateDir: string;
  /** Everything it printed so far, stdout and stderr. */
  output(): string;
  /** The command line, beside the running service and with its settings; rejects when it fails. */
  cli(argv: readonly string[], input?: string): Promise<string>;
  /** SIGTERM; resolves with the exit code once it is gone. */
  stop(): Promise<number | undefined>;
}

export interface ServiceOptions {
  readonly environment?: Readonly<Record<string, string>>;
  /** It leads a process group of its own, with all that it starts. */
  readonly ownGroup?: boolean;
}

export async function startService(
  installation: Installation,
  user: User,
  { environment = {}, ownGroup = false }: ServiceOptions = {},
): Promise<Service> {
  const stateDir = join(user.home, 'state');
  const muxwarden = (argv: readonly string[], input?: string) =>
    execa(installation.node, [join(installation.app, 'bin/muxwarden.js'), ...argv], {
      uid: user.uid,
      gid: user.gid,
      cwd: user.home,
      extendEnv: false,
      env: {
        PATH: '/usr/local/bin:/usr/bin:/bin',
        HOME: user.home,
        USER: user.name,
        MUXWARDEN_MODE: 'system',
        MUXWARDEN_PORT: '0',
        MUXWARDEN_STATE_DIR: stateDir,
        MUXWARDEN_HELPER: installation.helper,
        ...environment,
      },
      all: true,
      detached: ownGroup && argv[0] === 'serve',
      reject: false,
      forceKillAfterDelay: 15_000,
      ...(input === undefined ? { stdin: 'ignore' as const } : { input }),
    });
  const running = muxwarden(['serve']);
  let output = '';
  running.all?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  let ended: number | undefined;
  const exit = running.then((result) => {
    ended = result.exitCode ?? -1;
    return result.exitCode;
  });
  const url = await eventually(
    () => {
      if (ended !== undefined) throw new Error(`the service ended with ${ended}:\n${output}`);
      return /http:\/\/[\w.[\]:]+:\d+/.exec(output)?.[0];
    },
    'the service prints its address',
    50_000,
  );
  const adminKey = (await readFile(join(stateDir, 'admin.key'), 'utf8')).trim();
  const stop = async () => {
    running.kill('SIGTERM');
    return exit;
  };
  return {
    ...connect(url, adminKey),
    url,
    adminKey,
    pid: running.pid ?? 0,
    stateDir,
    output: () => output,
    async cli(argv, input) {
      const result = await muxwarden(argv, input);
      if (result.exitCode !== 0) throw new Error(`muxwarden ${argv.join(' ')}: ${result.all}`);
      return result.stdout;
    },
    stop,
    async [Symbol.asyncDispose]() {
      await stop();
    },
  };
}
