import { randomBytes } from 'node:crypto';
import { chmod, mkdir, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../concurrency/clock.ts';
import type { Config } from '../../config.ts';
import { type LiveProcess, Processes } from '../helper/process.ts';
import { HookDesk, type HookMember } from './hook-desk.ts';
import { PaneTokens } from './pane-token.ts';

/**
 * One socket for each member, on which that member's tools report. `muxwarden-hooks` listens on all of
 * them and says by the kernel's word whose report it is; the answers are ours. One process, kept while
 * there are members, and started again with a pause when it ends.
 */
type HooksConfig = Pick<Config, 'mode' | 'stateDir' | 'hooksDir' | 'hooksProgram'>;

const pauseMs = 5_000;
const longestLine = 16_384;

export class Hooks implements AsyncDisposable {
  readonly #config: HooksConfig;
  readonly #clock: Clock;
  readonly #processes = new Processes(1);
  readonly #members = new Map<string, HookMember>();
  readonly #refusals = new Map<string, string>();
  readonly #closed = new AbortController();
  #desk: HookDesk | undefined;
  #process: LiveProcess | undefined;
  #running: Promise<void> | undefined;

  constructor(config: HooksConfig, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
  }

  add(osUser: string, member: HookMember): void {
    this.#members.set(osUser, member);
    if (this.#process !== undefined) this.#listen(osUser);
    this.#running ??= this.#run();
  }

  remove(osUser: string): void {
    this.#members.delete(osUser);
    this.#refusals.delete(osUser);
    this.#process?.stdin.write(`close ${osUser}\n`);
  }

  /** Why there is no socket for whom; a folder that is not there is no fault. */
  refusals(): readonly { readonly memberId: string; readonly why: string }[] {
    return [...this.#refusals].flatMap(([osUser, why]) => {
      const memberId = this.#members.get(osUser)?.memberId;
      return memberId === undefined || why === 'absent' ? [] : [{ memberId, why }];
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    await this.#process?.close();
    await this.#running?.catch(() => undefined);
  }

  async #run(): Promise<void> {
    const config = this.#config;
    const clock = this.#clock;
    const { signal } = this.#closed;
    while (!signal.aborted) {
      try {
        this.#desk ??= new HookDesk(new PaneTokens(await keyIn(config.stateDir)), clock);
        if (config.mode === 'local') await ownFolder(config.hooksDir);
        const command = { file: config.hooksProgram, args: [], environment: {} };
        const process = await this.#processes.open(command, 'read', signal);
        process.started();
        this.#process = process;
        this.#read(process, this.#desk);
        for (const osUser of this.#members.keys()) this.#listen(osUser);
        await process.exited;
      } catch (cause) {
        if (signal.aborted) return;
        const why = cause instanceof Error ? cause.message : String(cause);
        for (const osUser of this.#members.keys()) this.#refusals.set(osUser, why);
      }
      this.#process = undefined;
      await pause(pauseMs, clock, signal);
    }
  }

  #listen(osUser: string): void {
    const { mode, hooksDir } = this.#config;
    const folder = mode === 'local' ? hooksDir : join(hooksDir, osUser);
    this.#process?.stdin.write(`listen ${osUser} ${Buffer.from(folder).toString('hex')}\n`);
  }

  #read(process: LiveProcess, desk: HookDesk): void {
    let text = '';
    process.stdout.setEncoding('latin1');
    process.stdout.on('data', (chunk: string) => {
      text += chunk;
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      if (text.length > longestLine) return void process.end();
      for (const line of lines) this.#heard(process, desk, line.split(' '));
    });
  }

  #heard(
    process: LiveProcess,
    desk: HookDesk,
    [word, which = '', ...more]: readonly string[],
  ): void {
    if (word === 'listening') this.#refusals.delete(which);
    if (word === 'refused') this.#refusals.set(which, fromHex(more[0]));
    if (word !== 'report') return;
    const member = this.#members.get(more[0] ?? '');
    const reply = (status: number, said: string) =>
      process.stdin.write(`answer ${which} ${status} ${Buffer.from(said).toString('hex')}\n`);
    if (member === undefined) return void reply(503, 'closing');
    desk.answer(member, fromHex(more[1]), more[2] === '-' ? '' : fromHex(more[2])).then(
      ({ status, text }) => reply(status, text),
      () => reply(503, 'it could not be looked at'),
    );
  }
}

const fromHex = (hex = ''): string => Buffer.from(hex, 'hex').toString('utf8');

/** So that tokens outlive the service. */
async function keyIn(stateDir: string): Promise<Uint8Array> {
  const path = join(stateDir, 'pane-token.key');
  const file = await open(path, 'ax', 0o600).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EEXIST') throw cause;
    return undefined;
  });
  if (file !== undefined) {
    await using made = file;
    await made.write(randomBytes(32));
    await made.sync();
  }
  const key = await readFile(path);
  if (key.length !== 32) throw new Error(`${path} is no key: remove it, and another is made`);
  return key;
}

async function ownFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chmod(path, 0o700);
}

async function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const cancel = clock.after(ms, resolve);
  const abort = () => resolve();
  signal.addEventListener('abort', abort, { once: true });
  await promise;
  cancel();
  signal.removeEventListener('abort', abort);
}
