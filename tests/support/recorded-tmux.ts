import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { library, patchedTmux } from './patched-tmux.ts';
import type { Version } from './tmux-server.ts';

/** A connection that a tmux client made, as the client itself wrote it down. */
export interface Connection {
  /** The binaries, as `/proc/PID/exe` leads to them. */
  readonly client: string;
  readonly server: string;
  readonly serverPid: number;
  /** The client's command line; the helper's begins with the bare word `tmux`. */
  readonly words: string;
}

/** Copies of tmux that write down whom they connect to. Needs gcc and patchelf. */
export class RecordedTmux {
  readonly #directory: string;
  readonly #record: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.#record = join(directory, 'record');
  }

  static async in(directory: string, versions: readonly Version[]): Promise<RecordedTmux> {
    const recorded = new RecordedTmux(directory);
    const needed = await library(directory, 'client-record', { RECORD: `"${recorded.#record}"` });
    for (const version of versions) await patchedTmux(version, recorded.binary(version), needed);
    return recorded;
  }

  binary(version: Version): string {
    return join(this.#directory, `tmux-${version}`);
  }

  async connections(): Promise<readonly Connection[]> {
    const text = await readFile(this.#record, 'utf8').catch(() => '');
    return text
      .split('\n')
      .slice(0, -1)
      .map((line) => {
        const [client = '', pid, server = '', words = ''] = line.split('\t');
        return { client, server, serverPid: Number(pid), words };
      });
  }
}

/** Connections of a client to a server of another binary; there must be none. */
export function foreign(connections: readonly Connection[]): readonly Connection[] {
  return connections.filter(({ client, server }) => client !== server || client === '');
}
