import { backOffMs } from '../../concurrency/back-off.ts';
import { type Clock, sleep } from '../../concurrency/clock.ts';
import {
  type AskOptions,
  type ControlConnection,
  type HelperAnswer,
  HelperError,
  type MemberHelper,
} from '../member-helper.ts';
import { openControl } from './control-process.ts';
import { askOnce } from './one-shot.ts';
import type { Processes } from './process.ts';
import type { Reach } from './reach.ts';
import { type Read, ReadQueue } from './read-queue.ts';
import { ServeProcess } from './serve-process.ts';

/**
 * One member's helper over real processes.
 *
 * Reads go over one kept `serve` process, strictly one request at a time, as ReadQueue orders them.
 * The process is replaced when it dies, stalls or answers oddly (a new one never starts beside an
 * old one that still ends), and ended when nobody has asked for `helperIdleMs`. After a failure
 * reads are refused until a back-off is over, unless they say that they have one of their own.
 * What changes something, and each control client, is a process of its own.
 */
export interface ProcessHelperOptions {
  readonly reach: Reach;
  readonly processes: Processes;
  readonly clock: Clock;
  readonly idleMs: number;
}

const askMs = 3_000;
const actMs = 10_000;
const startMs = 20_000;
/** Longer than TERM and KILL take; one that survives both (no right to signal it) is not waited for. */
const endingMs = 2_500;
const backOff = { firstMs: 1_000, maxMs: 60_000 };

export class ProcessHelper implements MemberHelper {
  readonly #options: ProcessHelperOptions;
  readonly #waiting = new ReadQueue();
  readonly #closed = new AbortController();
  #working = false;
  #serve: ServeProcess | undefined;
  /** The end of the process before, which the next one waits for. */
  #ending: Promise<void> = Promise.resolve();
  #failures = 0;
  #lastFailure: HelperError | undefined;
  #notBefore = 0;
  #cancelIdle: () => void = () => {};

  constructor(options: ProcessHelperOptions) {
    this.#options = options;
  }

  async ask(request: string, options: AskOptions = {}): Promise<HelperAnswer> {
    if (this.#closed.signal.aborted) throw closed();
    const answer = this.#waiting.push(request, options);
    if (!this.#working) void this.#work();
    return answer;
  }

  act(request: string, options: AskOptions = {}): Promise<HelperAnswer> {
    return this.#once('act', `1 ${request}\n`, undefined, { deadlineMs: actMs, ...options });
  }

  start(request: string, plan: Uint8Array, options: AskOptions = {}): Promise<HelperAnswer> {
    return this.#once('start', `1 ${request}\n`, plan, { deadlineMs: startMs, ...options });
  }

  control(request: string, signal: AbortSignal): Promise<ControlConnection> {
    const { processes, reach, clock } = this.#options;
    const bound = AbortSignal.any([signal, this.#closed.signal]);
    return openControl(processes, reach('control'), `1 ${request}\n`, clock, askMs, bound);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(closed());
    this.#cancelIdle();
    this.#waiting.rejectAll(closed());
    this.#drop(true);
    await Promise.race([this.#ending, sleep(endingMs, this.#options.clock)]);
  }

  #once(
    verb: 'act' | 'start',
    line: string,
    payload: Uint8Array | undefined,
    options: AskOptions & { readonly deadlineMs: number },
  ): Promise<HelperAnswer> {
    const { processes, reach, clock } = this.#options;
    return askOnce(processes, reach(verb), { line, payload, clock, ...options });
  }

  async #work(): Promise<void> {
    this.#working = true;
    this.#cancelIdle();
    for (let read = this.#waiting.shift(); read !== undefined; read = this.#waiting.shift()) {
      try {
        read.resolve(await this.#exchange(read));
        this.#failures = 0;
      } catch (error) {
        read.reject(error);
      }
    }
    this.#working = false;
    if (this.#serve !== undefined && !this.#closed.signal.aborted) {
      this.#cancelIdle = this.#options.clock.after(this.#options.idleMs, () => this.#drop(false));
    }
  }

  async #exchange({ request, options }: Read): Promise<HelperAnswer> {
    const { clock } = this.#options;
    const wait = this.#notBefore - clock.monotonic();
    if (this.#failures > 0 && wait > 0 && !options.pastBackOff && this.#lastFailure) {
      throw this.#lastFailure;
    }
    const deadlineMs = options.deadlineMs ?? askMs;
    try {
      const kept = this.#serve;
      if (kept?.alive) {
        const answer = await kept.ask(request, deadlineMs);
        // Killed between two requests, most likely; what was asked is a read, so asking again is safe.
        if (answer !== 'died-before') return answer;
        this.#drop(true);
      }
      const answer = await (await this.#startServe()).ask(request, deadlineMs);
      if (answer !== 'died-before') return answer;
      throw new HelperError('HELPER_FAILED', 'the helper ended before it answered');
    } catch (error) {
      this.#drop(true);
      if (error instanceof HelperError) this.#failed(error);
      throw error;
    }
  }

  #failed(error: HelperError): void {
    this.#failures++;
    this.#lastFailure = error;
    this.#notBefore = this.#options.clock.monotonic() + backOffMs(this.#failures, backOff);
  }

  async #startServe(): Promise<ServeProcess> {
    await Promise.race([this.#ending, sleep(endingMs, this.#options.clock)]);
    const { processes, reach, clock } = this.#options;
    const command = reach('serve');
    const kind = this.#failures > 0 ? 'failing' : 'read';
    const process = await processes.open(command, kind, this.#closed.signal);
    if (this.#closed.signal.aborted) {
      await process.end();
      throw closed();
    }
    this.#serve = new ServeProcess(command, process, clock);
    return this.#serve;
  }

  /** `now`: it failed. Otherwise it is only not needed, and ends with its input. */
  #drop(now: boolean): void {
    const serve = this.#serve;
    if (serve === undefined) return;
    this.#serve = undefined;
    const ending = Promise.all([this.#ending, now ? serve.end() : serve.close()]);
    this.#ending = ending.then(() => {});
  }
}

function closed(): HelperError {
  return new HelperError('HELPER_FAILED', 'the service is stopping, or the member is gone');
}
