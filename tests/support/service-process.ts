import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { type Client, connect } from './graphql-over-http.ts';
import { type ProcessEntry, processTable } from './process-table.ts';
import { eventually } from './tmux-server.ts';

/** The service as a process of its own, in local mode, with everything that it makes in one folder. */
export interface ServiceProcess extends Client, AsyncDisposable {
  readonly url: string;
  readonly key: string;
  readonly pid: number;
  /** What it printed so far. */
  output(): string;
  /** Resolves when it is gone: with the signal that ended it, else its exit code. */
  readonly ended: Promise<NodeJS.Signals | number | undefined>;
  /** To the process itself. */
  kill(signal: NodeJS.Signals): void;
}

export interface ServiceProcessOptions {
  /** Sockets, state and a helper of its own name, so that its processes can be told from others. */
  readonly folder: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Loaded before it. */
  readonly module?: string;
}

const root = join(import.meta.dirname, '../..');

export async function startServiceProcess(options: ServiceProcessOptions): Promise<ServiceProcess> {
  const { folder, environment = {}, module } = options;
  const helper = helperIn(folder);
  await copyFile(join(root, 'libexec/muxwarden-member'), helper);
  const running = execa(
    process.execPath,
    [
      ...(module === undefined ? [] : ['--import', module]),
      join(root, 'bin/muxwarden.js'),
      'serve',
    ],
    {
      env: {
        HOME: folder,
        NODE_COMPILE_CACHE: compiled,
        MUXWARDEN_STATE_DIR: join(folder, 'state'),
        MUXWARDEN_SOCKET_DIRS: folder,
        MUXWARDEN_HELPER: helper,
        MUXWARDEN_PORT: '0',
        ...environment,
      },
      stdin: 'ignore',
      all: true,
      reject: false,
      forceKillAfterDelay: 15_000,
    },
  );
  let output = '';
  running.all.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  let isOver = false;
  const ended = running.then(({ signal, exitCode }) => {
    isOver = true;
    return signal ?? exitCode;
  });
  const url = await eventually(
    () => {
      if (isOver) throw new Error(`the service ended:\n${output}`);
      return /http:\/\/[\w.[\]:]+:\d+(?=\s)/.exec(output)?.[0];
    },
    'the service prints its address',
    50_000,
  );
  const key = (await readFile(join(folder, 'state/admin.key'), 'utf8')).trim();
  return {
    ...connect(url, key),
    url,
    key,
    pid: running.pid ?? 0,
    output: () => output,
    ended,
    kill: (signal) => void running.kill(signal),
    async [Symbol.asyncDispose]() {
      running.kill('SIGTERM');
      await ended;
    },
  };
}

/** A start that compiles nothing takes half the time. */
const compiled = join(root, 'node_modules/.cache/muxwarden/compiled');
const helperIn = (folder: string) => join(folder, 'helper');

/** Helpers, tmux clients and tmux servers of that folder that live. */
export async function processesIn(folder: string): Promise<readonly ProcessEntry[]> {
  return (await processTable()).filter(({ words }) =>
    words.some((word) => word.startsWith(folder)),
  );
}
