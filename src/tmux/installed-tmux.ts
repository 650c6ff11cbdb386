import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import type { Clock } from '../concurrency/clock.ts';
import { Processes } from './helper/process.ts';
import type { InstalledTmux } from './member-tmux.ts';
import { parseVersionLine } from './tmux-version.ts';

const lookMs = 60_000;
const versionMs = 3_000;
const maxBytes = 256;
const usualPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * The tmux that a new server would run: looked for now and then, since packages come and go while
 * the service runs. Readers get what was last seen, at once.
 */
export class TmuxOnMachine {
  readonly #name: string;
  readonly #searchPath: string;
  readonly #clock: Clock;
  /** Of its own: these are no helper processes. */
  readonly #processes = new Processes(1);
  #found: InstalledTmux | undefined;
  #lookedAt: number | undefined;
  #looking: Promise<InstalledTmux | undefined> | undefined;

  /** `name` is absolute, or looked for on `searchPath`. */
  constructor(name: string, clock: Clock, searchPath: string = usualPath) {
    this.#name = name;
    this.#clock = clock;
    this.#searchPath = searchPath || usualPath;
  }

  /** False until the first look is over. */
  get wasLookedFor(): boolean {
    return this.#lookedAt !== undefined;
  }

  /** What was last found; looks again behind the answer when that is old. */
  peek(): InstalledTmux | undefined {
    const age = this.#clock.monotonic() - (this.#lookedAt ?? Number.NEGATIVE_INFINITY);
    if (age >= lookMs) void this.look();
    return this.#found;
  }

  /** Looks now. */
  look(): Promise<InstalledTmux | undefined> {
    this.#looking ??= this.#find().then((found) => {
      this.#found = found;
      this.#lookedAt = this.#clock.monotonic();
      this.#looking = undefined;
      return found;
    });
    return this.#looking;
  }

  async #find(): Promise<InstalledTmux | undefined> {
    for (const binary of this.#candidates()) {
      if (!(await isExecutable(binary))) continue;
      const version = await this.#versionOf(binary);
      if (version !== undefined) return { binary, version };
    }
    return undefined;
  }

  #candidates(): readonly string[] {
    if (isAbsolute(this.#name)) return [this.#name];
    const directories = this.#searchPath
      .split(delimiter)
      .filter((directory) => isAbsolute(directory));
    return directories.map((directory) => join(directory, this.#name));
  }

  async #versionOf(binary: string): Promise<string | undefined> {
    const environment = { PATH: usualPath, LC_CTYPE: 'C.UTF-8' };
    const process = await this.#processes.open({ file: binary, args: ['-V'], environment }, 'read');
    let text = '';
    process.stdout.on('data', (chunk: Buffer) => {
      if (text.length < maxBytes) text += chunk.toString('utf8');
    });
    const cancel = this.#clock.after(versionMs, () => void process.end());
    const ended = new Promise<void>((resolve) => {
      process.stdout.once('close', resolve);
    });
    const { code } = await process.exited;
    cancel();
    await ended;
    return code === 0 ? parseVersionLine(text) : undefined;
  }
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    // Not there, or not to be run: not the one that is looked for.
    return false;
  }
}
