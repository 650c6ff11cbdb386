import { randomBytes } from 'node:crypto';
import { constants, fstatSync, lstatSync, statfsSync } from 'node:fs';
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  readFile,
  rename,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { StateDirectoryError } from '../database/state-directory.ts';
import { ifThere, isSystemError } from '../system-error.ts';
import { syncDirectory } from './chain-key.ts';
import { parseJournalLine } from './journal-line.ts';
import type { SealedRow } from './row.ts';

/**
 * The first of the two places of a row: `<state dir>/audit/journal.jsonl`, one row a line.
 *
 * A group of rows is one write at the end of the file that returns once the disk holds it (O_DSYNC: a
 * write and an fdatasync on one way); it succeeds, or nothing more is written by this process
 * (`JournalStoppedError`): after a failed sync nobody knows what the disk holds, so there is no retry. Only `NoSpaceError`, found by looking before anything was
 * written, goes away by itself.
 *
 * A write that was cut leaves a torn last line. It is nobody's row: the next start takes it off
 * (and keeps it beside the journal). A torn line anywhere else is damage, and a verifier says so.
 */
export class JournalStoppedError extends Error {
  override readonly name = 'JournalStoppedError';
}

/** Too little space is left to begin; nothing was written. */
export class NoSpaceError extends Error {
  override readonly name = 'NoSpaceError';
}

/** More bytes than the lines of one group have. */
const beyondAnyGroup = 1 << 30;

export interface JournalOptions {
  /** Space that must be free before a write is begun. */
  readonly minimumFreeBytes?: number;
  /** Kept back, to be given up when the disk is full and that has to be written down. */
  readonly reserveBytes?: number;
}

export class Journal implements AsyncDisposable {
  readonly path: string;
  /** What an earlier process or this opening found wrong: sentences for an alarm. */
  readonly findings: readonly string[];
  readonly #directory: string;
  readonly #file: FileHandle;
  readonly #inode: number;
  readonly #minimumFreeBytes: number;
  #size: number;
  #stopped: JournalStoppedError | undefined;

  private constructor(
    path: string,
    file: FileHandle,
    at: { readonly inode: number; readonly size: number },
    findings: readonly string[],
    minimumFreeBytes: number,
  ) {
    this.path = path;
    this.#directory = dirname(path);
    this.#file = file;
    this.#inode = at.inode;
    this.#size = at.size;
    this.findings = findings;
    this.#minimumFreeBytes = minimumFreeBytes;
  }

  /** @throws StateDirectoryError where something else stands in its place */
  static async open(
    stateDir: string,
    { minimumFreeBytes = 256 << 10, reserveBytes = 1 << 20 }: JournalOptions = {},
  ): Promise<Journal> {
    const directory = join(stateDir, 'audit');
    const path = join(directory, 'journal.jsonl');
    const file = await openInPlace(directory, path);
    try {
      const findings = [
        ...(await earlierStop(directory)),
        ...(await setTornLineAside(file, directory)),
        ...(await reserve(directory, reserveBytes)),
      ];
      await syncDirectory(directory);
      const { ino, size } = await file.stat();
      return new Journal(path, file, { inode: ino, size }, findings, minimumFreeBytes);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Why nothing more is written, or undefined. */
  get stopped(): JournalStoppedError | undefined {
    return this.#stopped;
  }

  /** Why no row could be written now, or undefined; the disk is looked at anew. */
  get unavailable(): Error | undefined {
    if (this.#stopped) return this.#stopped;
    try {
      return this.#free() > 0 ? undefined : this.#noSpace();
    } catch (cause) {
      return new Error(`${this.#directory} can't be looked at`, { cause });
    }
  }

  /**
   * Sees that the lines may be written. What it gives back writes them, now or never: it resolves when the
   * disk has them, and rejects with JournalStoppedError. One group at a time.
   * @param lines asked for here only where space is scarce
   * @param last may use the space that is kept free: for what has to be written when it is the end
   * @throws NoSpaceError, JournalStoppedError
   */
  async prepare(lines: () => readonly string[], last = false): Promise<() => Promise<void>> {
    if (this.#stopped) throw this.#stopped;
    const data = () =>
      Buffer.from(
        lines()
          .map((line) => `${line}\n`)
          .join(''),
      );
    const free = this.#free(last);
    if (free < beyondAnyGroup && free < data().length) throw this.#noSpace();
    try {
      this.#checkStillOurs();
    } catch (cause) {
      throw await this.#stop(cause);
    }
    return () => this.#write(data);
  }

  /** The rows from the end back to, and without, the first one that `enough` accepts; oldest first. */
  async tail(enough: (row: SealedRow) => boolean): Promise<readonly SealedRow[]> {
    const rows: SealedRow[] = [];
    for await (const line of linesFromEnd(this.#file, this.#size)) {
      const row = parseJournalLine(line);
      if (row === undefined)
        throw new JournalStoppedError(
          `${this.path} has a damaged line. Keep a copy, then look at it with 'muxwarden audit verify'.`,
        );
      if (enough(row)) break;
      rows.push(row);
    }
    return rows.reverse();
  }

  async [Symbol.asyncDispose]() {
    this.#stopped ??= new JournalStoppedError('The audit journal is closed.');
    await this.#file.close();
  }

  async #write(lines: () => Buffer): Promise<void> {
    const data = lines();
    try {
      const { bytesWritten } = await this.#file.write(data);
      if (bytesWritten !== data.length)
        throw new Error(`${bytesWritten} of ${data.length} bytes were written (disk full?)`);
      this.#size += bytesWritten;
    } catch (cause) {
      throw await this.#stop(cause);
    }
  }

  #free(last = false): number {
    const { bavail, bsize } = statfsSync(this.#directory);
    return bavail * bsize - (last ? Math.min(0, this.#minimumFreeBytes) : this.#minimumFreeBytes);
  }

  #noSpace(): NoSpaceError {
    return new NoSpaceError(`${this.#directory} has no space for the audit journal. Free some.`);
  }

  /**
   * Somebody else's write, a cut or an exchanged file: then our numbering is not the only one. Asked
   * in this thread, as the free space is: that takes microseconds, and to wake another one ten times that.
   */
  #checkStillOurs(): void {
    const held = fstatSync(this.#file.fd);
    const named = lstatSync(this.path);
    if (named.ino !== this.#inode || held.size !== this.#size)
      throw new Error('the file was exchanged, cut or written by somebody else');
  }

  async #stop(cause: unknown): Promise<JournalStoppedError> {
    const why = cause instanceof Error ? cause.message : String(cause);
    const stopped = new JournalStoppedError(
      `The audit journal ${this.path} can't be written: ${why}. No act is done until that is mended and the service was started again.`,
      { cause },
    );
    this.#stopped = stopped;
    const directory = this.#directory;
    // The reserve is given up so that there is space for this one note on a full disk.
    await unlink(join(directory, 'reserve')).catch(() => {});
    const note = `${JSON.stringify({ at: new Date().toISOString(), why })}\n`;
    await writeFile(join(directory, 'stopped.json'), note, { mode: 0o600, flush: true }).catch(
      (error: unknown) => {
        stopped.message += ` (Nor could that be noted: ${error instanceof Error ? error.message : error}.)`;
      },
    );
    return stopped;
  }
}

async function openInPlace(directory: string, path: string): Promise<FileHandle> {
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_DSYNC } = constants;
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const there = await ifThere(lstat(path));
    if (there?.isFile() === false) throw new Error('it is no regular file');
    return await open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_DSYNC, 0o600);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new StateDirectoryError(
      `The audit journal ${path} can't be opened: ${why}. Move aside what stands in its place, and put the journal back from a backup if there was one.`,
      { cause },
    );
  }
}

async function earlierStop(directory: string): Promise<string[]> {
  const path = join(directory, 'stopped.json');
  const note = await readFile(path, 'utf8').catch((error: unknown) => {
    if (isSystemError(error, 'ENOENT')) return undefined;
    throw error;
  });
  if (note === undefined) return [];
  await rename(path, join(directory, `stopped-${Date.now()}.json`));
  return [`The service had stopped acting, for its journal could not be written: ${note.trim()}`];
}

async function setTornLineAside(file: FileHandle, directory: string): Promise<string[]> {
  const { size } = await file.stat();
  let torn = Buffer.alloc(0);
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - (64 << 10));
    const block = Buffer.alloc(end - start);
    await file.read(block, 0, block.length, start);
    const cut = block.lastIndexOf(10) + 1;
    torn = Buffer.concat([block.subarray(cut), torn]);
    if (cut > 0) break;
    end = start;
  }
  if (torn.length === 0) return [];
  const aside = join(directory, `torn-${Date.now()}`);
  await writeFile(aside, torn, { mode: 0o600, flush: true });
  await file.truncate(size - torn.length);
  await file.sync();
  return [`The journal ended in a torn line of ${torn.length} bytes; it is kept in ${aside}.`];
}

async function reserve(directory: string, bytes: number): Promise<string[]> {
  const path = join(directory, 'reserve');
  try {
    if ((await ifThere(lstat(path)))?.size === bytes) return [];
    await writeFile(path, randomBytes(bytes), { mode: 0o600, flush: true });
    return [];
  } catch (error) {
    await unlink(path).catch(() => {});
    const why = error instanceof Error ? error.message : String(error);
    return [`No space could be kept back for the audit journal: ${why}.`];
  }
}

/** Lines without their LF, the last one first. */
async function* linesFromEnd(file: FileHandle, size: number): AsyncGenerator<string> {
  let rest = Buffer.alloc(0);
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - (64 << 10));
    const block = Buffer.alloc(end - start);
    await file.read(block, 0, block.length, start);
    rest = Buffer.concat([block, rest]);
    end = start;
    for (;;) {
      // The last byte is the LF of the last line; the one before it ends the line before.
      const before = rest.length < 2 ? -1 : rest.lastIndexOf(10, rest.length - 2);
      if (before === -1) break;
      yield rest.subarray(before + 1, rest.length - 1).toString();
      rest = rest.subarray(0, before + 1);
    }
  }
  if (rest.length > 0) yield rest.subarray(0, rest.length - 1).toString();
}
