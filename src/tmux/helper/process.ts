import type { Readable, Writable } from 'node:stream';
import { execa } from 'execa';
import { StartGate, type StartKind } from './start-gate.ts';

/**
 * The one place that starts processes.
 *
 * Each gets a built environment, `/` as its directory, pipes and no other descriptor of ours. What
 * counts as its end is the exit of the process, never the end of its pipes: a grandchild may hold
 * those open for ever, so they are destroyed by us. It is ended by TERM (with CONT, should it be
 * stopped), and by KILL 500 ms later.
 */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

export interface Exit {
  /** Null when a signal ended it, or when it never started. */
  readonly code: number | null;
  readonly signal: string | null;
  /** The system's code when it could not be started, for example `ENOENT`. */
  readonly startFailure: string | null;
}

export interface LiveProcess {
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** What it last wrote to stderr, 2 KiB at most. Untrusted. */
  stderr(): string;
  readonly exited: Promise<Exit>;
  /** Gives back its place among those that start; at the latest its exit does. */
  started(): void;
  /** Closes its input and gives it 1 s to end by itself, then `end`. */
  close(): Promise<Exit>;
  /** TERM, then KILL after 500 ms. Resolves when it is gone. */
  end(): Promise<Exit>;
}

export const killAfterMs = 500;
const closeMs = 1_000;
/** After the exit, how long what is still in the pipe may take to be read. */
export const drainMs = 200;
const stderrBytes = 2_048;

export class Processes {
  readonly gate: StartGate;
  #count = 0;

  constructor(limit: number) {
    this.gate = new StartGate(limit);
  }

  /** Processes started since our start. */
  get count(): number {
    return this.#count;
  }

  /** Starts it once there is a place; an abort while waiting rejects. */
  async open(command: Command, kind: StartKind, signal?: AbortSignal): Promise<LiveProcess> {
    const leave = await this.gate.enter(kind, signal);
    this.#count++;
    return start(command, leave);
  }
}

function start(command: Command, leave: () => void): LiveProcess {
  const subprocess = execa(command.file, [...command.args], {
    env: { ...command.environment },
    extendEnv: false,
    cwd: '/',
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
    buffer: false,
    encoding: 'buffer',
    reject: false,
    forceKillAfterDelay: killAfterMs,
  });
  const { stdin, stdout, stderr } = subprocess;
  // A pipe that breaks is the end of the process seen from another side: the exit tells.
  for (const stream of [stdin, stdout, stderr]) stream.on('error', () => {});

  let words = Buffer.alloc(0);
  stderr.on('data', (chunk: Buffer) => {
    words = Buffer.concat([words, chunk]).subarray(-stderrBytes);
  });

  const { promise: exited, resolve } = Promise.withResolvers<Exit>();
  subprocess.nodeChildProcess.once('exit', (code: number | null, signal: string | null) =>
    resolve({ code, signal, startFailure: null }),
  );
  // Settles alone only where there was no process at all; otherwise `exit` came before.
  subprocess.then(
    (result) =>
      resolve({
        code: result.exitCode ?? null,
        signal: result.signal ?? null,
        startFailure: result.exitCode === undefined ? (result.code ?? 'unknown') : null,
      }),
    (error: Error) => resolve({ code: null, signal: null, startFailure: error.message }),
  );

  const gone = exited.then((exit) => {
    leave();
    stdin.destroy();
    const destroy = setTimeout(() => {
      stdout.destroy();
      stderr.destroy();
    }, drainMs);
    destroy.unref();
    return exit;
  });

  const end = () => {
    subprocess.kill('SIGTERM');
    // A member may stop the helper, and sudo stops with it: neither would hear the TERM, and a helper
    // that was stopped before it bound its life to sudo's would outlive the KILL.
    subprocess.kill('SIGCONT');
    return gone;
  };
  return {
    pid: subprocess.pid,
    stdin,
    stdout,
    stderr: () => words.toString('utf8'),
    exited: gone,
    started: leave,
    async close() {
      stdin.end();
      const timer = setTimeout(() => void end(), closeMs);
      const exit = await gone;
      clearTimeout(timer);
      return exit;
    },
    end,
  };
}
