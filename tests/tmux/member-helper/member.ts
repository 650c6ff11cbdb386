import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { processesWhere } from '../../lab/processes.ts';
import {
  type Answer,
  askOnce,
  helperPath,
  hex,
  type Runner,
  rowsOf,
  self,
  unhex,
} from '../../support/helper-client.ts';
import { processTable, signalSeen } from '../../support/process-table.ts';
import { startTicks, tmuxBinary, type Version } from '../../support/tmux-server.ts';

/**
 * Somebody with tmux servers in a directory of his own, as the helper sees him: `self`, or a Linux
 * user that exists for the length of a test file. Ends by pid what it started, and removes the rest.
 */
export class Member implements AsyncDisposable {
  readonly runner: Runner;
  readonly directory: string;
  readonly #account: string | undefined;
  readonly #started: (readonly [pid: number, ticks: string])[] = [];

  private constructor(runner: Runner, directory: string, account?: string) {
    this.runner = runner;
    this.directory = directory;
    this.#account = account;
  }

  /** An ordinary user where one can be made. */
  static any(): Promise<Member> {
    return process.getuid?.() === 0 ? Member.ordinary() : Member.self();
  }

  static async self(): Promise<Member> {
    return new Member(self, await mkdtemp('/tmp/mwt-'));
  }

  /** An ordinary Linux user; needs root. */
  static async ordinary(): Promise<Member> {
    const account = `mwt-${randomBytes(3).toString('hex')}`;
    const directory = await mkdtemp('/tmp/mwt-');
    await execa('useradd', ['-U', '-M', '-d', directory, '-s', '/bin/sh', account]);
    const passwd = (await execa('getent', ['passwd', account])).stdout.split(':');
    const [uid, gid] = [Number(passwd[2]), Number(passwd[3])];
    await chown(directory, uid, gid);
    return new Member({ name: 'an ordinary user', uid, gid, home: directory }, directory, account);
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  async folder(name: string | Buffer, mode = 0o700): Promise<Buffer> {
    const path = Buffer.concat([Buffer.from(`${this.directory}/`), Buffer.from(name)]);
    await mkdir(path, { recursive: true });
    await chmod(path, mode);
    await chown(path, this.runner.uid, this.runner.gid);
    return path;
  }

  /** Runs a program as this member. */
  run(file: string, args: readonly (string | Buffer)[], cwd = '/') {
    return execa(file, args as string[], {
      extendEnv: false,
      env: {
        PATH: '/usr/local/bin:/usr/bin:/bin',
        HOME: this.runner.home,
        TERM: 'xterm-256color',
        LC_CTYPE: 'C.UTF-8',
        SHELL: '/bin/sh',
      },
      uid: this.runner.uid,
      gid: this.runner.gid,
      cwd,
      timeout: 20_000,
    });
  }

  /** A server with one session `main` of 80 x 24, whose pane runs a silent `sh`. */
  async server(version: Version, name = `s-${version}`, binary = tmuxBinary(version)) {
    if (binary === undefined) throw new Error(`tmux ${version} is not on this machine`);
    const socket = this.path(name);
    const tmux = async (...command: readonly string[]) =>
      (await this.run(binary, ['-u', '-S', socket, '-f', '/dev/null', ...command])).stdout;
    await tmux('new-session', '-d', '-s', 'main', '-x', '80', '-y', '24', 'exec sh');
    const pid = Number(await tmux('display-message', '-p', '#{pid}'));
    return this.#server(version, socket, tmux, pid);
  }

  async #server(
    version: Version,
    socket: string,
    tmux: (...command: readonly string[]) => Promise<string>,
    pid: number,
  ) {
    const ticks = await this.note(pid);
    const start = await tmux('display-message', '-p', '#{start_time}');
    const words = `socket=${hex(socket)} pid=${pid} ticks=${ticks} start=${start}`;
    return {
      version,
      socket,
      tmux,
      pid,
      ticks,
      start: Number(start),
      words,
      async [Symbol.asyncDispose]() {
        if ((await startTicks(pid)) === ticks) signalSeen(pid, 'SIGKILL');
        await rm(socket, { force: true });
      },
    };
  }

  /** The helper as this member, for a service that is root: a file to be run in its place. */
  async helper(): Promise<string> {
    const { uid, gid } = this.runner;
    const path = this.path('helper');
    await writeFile(
      path,
      `#!/bin/sh\nexec setpriv --reuid=${uid} --regid=${gid} --clear-groups ${helperPath} "$@"\n`,
      { mode: 0o755 },
    );
    return path;
  }

  /** What is to be ended after the test. */
  async note(pid: number): Promise<string> {
    const ticks = await startTicks(pid);
    if (ticks === undefined) throw new Error(`process ${pid} is gone`);
    this.#started.push([pid, ticks]);
    return ticks;
  }

  /** Asks again while a server did not answer in time: other tests keep the machine busy. */
  async snapshot(more = '', tries = 10): Promise<Snapshot> {
    const request = `snapshot dirs=${hex(this.directory)}${more}`;
    const snapshot = readSnapshot(await askOnce('serve', request, this.runner));
    const late = snapshot.servers.some(({ code }) => code === 'TIMEOUT');
    return late && tries > 1 ? this.snapshot(more, tries - 1) : snapshot;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const [pid, ticks] of this.#started) {
      if ((await startTicks(pid)) === ticks) signalSeen(pid, 'SIGKILL');
    }
    if (this.#account !== undefined) {
      for (const pid of await processesOf(this.runner.uid)) signalSeen(pid, 'SIGKILL');
      // -f: a zombie that process 1 has not reaped yet counts as a running process.
      await execa('userdel', ['-f', this.#account], { reject: false });
    }
    await rm(this.directory, { recursive: true, force: true });
  }
}

export type StartedServer = Awaited<ReturnType<Member['server']>>;

/** Living processes of a user. */
export async function processesOf(uid: number): Promise<readonly number[]> {
  return (await processesWhere((process) => process.uid === uid)).map(({ pid }) => pid);
}

/** Living processes whose command line holds a text. */
export async function processesWith(text: string): Promise<readonly number[]> {
  return (await processTable())
    .filter(({ words }) => words.join('\0').includes(text))
    .map(({ pid }) => pid);
}

export interface SnapshotServer {
  readonly path: string;
  readonly code: string;
  readonly detail: string;
  readonly pid: string;
  readonly ticks: string;
  readonly state: string;
  readonly openFiles: string;
  readonly deleted: string;
  readonly version: string;
  readonly binary: string;
  readonly rows: readonly (readonly string[])[];
  /** When something was last written, by `activity WINDOW` and `output PANE`. */
  readonly last: ReadonlyMap<string, string>;
  of(kind: string): readonly Readonly<Record<string, string>>[];
}
export interface Snapshot {
  readonly answer: Answer;
  readonly servers: readonly SnapshotServer[];
  readonly dead: number;
  server(path: string): SnapshotServer;
}

/** Names the fields of the rows by the `fields` rows that came with them. */
export function readSnapshot(answer: Answer): Snapshot {
  const names = new Map(rowsOf(answer, 'fields').map(([kind, ...rest]) => [kind ?? '', rest]));
  const servers: (SnapshotServer & {
    readonly rows: (readonly string[])[];
    readonly last: Map<string, string>;
  })[] = [];
  for (const row of answer.rows) {
    const [kind, ...fields] = row;
    if (kind === 'server') {
      const rows: (readonly string[])[] = [];
      servers.push({
        path: unhex(fields[0]).toString('utf8'),
        code: fields[1] ?? '',
        detail: fields[2] ?? '',
        pid: fields[3] ?? '',
        ticks: fields[4] ?? '',
        state: fields[5] ?? '',
        openFiles: fields[7] ?? '',
        deleted: fields[10] ?? '',
        version: fields[11] ?? '',
        binary: unhex(fields[12]).toString('utf8'),
        rows,
        last: new Map(),
        of: (wanted) =>
          rows
            .filter(([name]) => name === wanted)
            .map(([, ...values]) =>
              Object.fromEntries((names.get(wanted) ?? []).map((name, at) => [name, values[at]])),
            ) as Record<string, string>[],
      });
    } else if (kind === 'activity' || kind === 'output') {
      servers.at(-1)?.last.set(`${kind} ${fields[0]}`, fields[1] ?? '');
    } else if (kind !== undefined && (names.has(kind) || kind === 'identity')) {
      servers.at(-1)?.rows.push(row);
    }
  }
  return {
    answer,
    servers,
    dead: rowsOf(answer, 'dead').reduce((sum, [, count]) => sum + Number(count), 0),
    server(path) {
      const found = servers.find((server) => server.path === path);
      if (found === undefined) throw new Error(`not in the snapshot: ${path}`);
      return found;
    },
  };
}
