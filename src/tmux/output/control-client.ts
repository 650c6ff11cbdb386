import type { Clock } from '../../concurrency/clock.ts';
import type { ControlConnection } from '../member-helper.ts';
import type { Bracket } from './bracket.ts';
import type { BlockAnswer } from './control-block.ts';
import { type ControlLine, Nonce, printNonce } from './control-line.ts';
import { ControlParser, ControlProtocolError } from './protocol.ts';

/**
 * One control connection. Every line that is written stands in the queue, in the order of writing;
 * tmux answers in that order, so a block of ours belongs to the queue's head. Whoever stops waiting
 * leaves its place in the queue, or all later answers would be shifted.
 *
 * The connection is always drained: nothing here waits for whoever reads the output, so the
 * member's program is never blocked by a slow reader of ours.
 */
export interface ControlEvents {
  /** A view into the input: copy what is to be kept. */
  output(pane: number, data: Uint8Array): void;
  notification(name: string, rest: string): void;
  /** So much came in one piece and has been handed on; it took `ms`. */
  drained(bytes: number, ms: number): void;
}

/** The connection is over, or was never understood; whatever was asked last may or may not be done. */
export class ControlEndedError extends Error {
  override readonly name = 'ControlEndedError';
}
/** No answer within the deadline: the server is stopped, busy, or answers something else. */
export class ControlTimeoutError extends Error {
  override readonly name = 'ControlTimeoutError';
}

interface Asked {
  readonly bracket: Bracket | undefined;
  answer(answers: readonly BlockAnswer[]): void;
  fail(error: Error): void;
}

const defaultDeadlineMs = 5_000;
/** More lines than this without an answer: whoever asks has to wait. */
const mostAsked = 1_000;

export class ControlClient implements AsyncDisposable {
  readonly pid: number;
  readonly version: string;
  /** Resolves when the connection is over, whoever ended it. */
  readonly ended: Promise<void>;
  readonly #connection: ControlConnection;
  readonly #clock: Clock;
  readonly #queue: Asked[] = [];
  /**
   * Lines to write once tmux has attached us; undefined: it has. It reads and runs commands before
   * that, but then there is no client to set anything for, and output that comes between such an
   * answer and the attaching never reaches us.
   */
  #unsent: string[] | undefined = [];
  #over: ControlEndedError | undefined;

  constructor(connection: ControlConnection, events: ControlEvents, clock: Clock) {
    this.pid = connection.pid;
    this.version = connection.version;
    this.#connection = connection;
    this.#clock = clock;
    const parser = new ControlParser({
      output: (pane, data) => events.output(pane, data),
      notification: (name, rest) => {
        if (name === 'session-changed') this.#attached();
        events.notification(name, rest);
      },
      opened: () => this.#queue[0]?.bracket,
      block: (answer) => this.#queue.shift()?.answer([answer]),
      bracket: (answers) => this.#queue.shift()?.answer(answers),
    });
    connection.output.on('data', (chunk: Buffer) => {
      if (this.#over !== undefined) return;
      const from = clock.monotonic();
      try {
        parser.push(chunk);
      } catch (cause) {
        if (!(cause instanceof ControlProtocolError)) throw cause;
        this.#end(new ControlEndedError(cause.message, { cause }));
        return;
      }
      events.drained(chunk.length, clock.monotonic() - from);
    });
    const failed = (cause: Error) =>
      this.#end(new ControlEndedError('The connection broke.', { cause }));
    connection.output.on('error', failed);
    connection.input.on('error', failed);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    // The process may be gone before the last of its output is read.
    connection.output.on('close', resolve);
    connection.output.on('end', resolve);
    void promise.then(() => this.#end(new ControlEndedError('The connection ended.')));
    connection.output.resume();
  }

  /** Asks a command whose answer holds nothing but what tmux itself wrote. @throws ControlEndedError, ControlTimeoutError */
  async ask(line: ControlLine, deadlineMs: number = defaultDeadlineMs): Promise<BlockAnswer> {
    return await this.#ask(`${line.text}\n`, undefined, deadlineMs, ([answer]) => {
      if (answer === undefined) throw new ControlProtocolError('No answer.');
      return answer;
    });
  }

  /**
   * Asks commands whose answers may hold anything. tmux runs them in one go: nothing changes
   * between them. `read` is called the moment they are answered: output that was handed on before
   * belongs before the answers, all later output behind them.
   * @throws ControlEndedError, ControlTimeoutError
   */
  bracket<T>(
    lines: readonly ControlLine[],
    read: (answers: readonly BlockAnswer[]) => T,
    deadlineMs: number = defaultDeadlineMs,
  ): Promise<T> {
    const nonces = lines.map(() => new Nonce());
    const last = new Nonce();
    const first = lines
      .map((line, index) => `${line.text} ; ${printNonce(nonces[index] ?? last).text}`)
      .join(' ; ');
    const bracket = { nonces: nonces.map((nonce) => nonce.hex), last: last.hex };
    return this.#ask(`${first}\n${printNonce(last).text}\n`, bracket, deadlineMs, read);
  }

  /** False when nothing comes back in time. @throws ControlEndedError */
  async ping(deadlineMs: number): Promise<boolean> {
    const nonce = new Nonce();
    try {
      const answer = await this.ask(printNonce(nonce), deadlineMs);
      return answer.ok && answer.lines[0]?.toString('latin1') === nonce.hex;
    } catch (error) {
      if (error instanceof ControlTimeoutError) return false;
      throw error;
    }
  }

  /** Closes its input, which is how a control client leaves without a trace. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#end(new ControlEndedError('The connection was closed.'));
    await this.#connection[Symbol.asyncDispose]();
  }

  #ask<T>(
    text: string,
    bracket: Bracket | undefined,
    deadlineMs: number,
    read: (answers: readonly BlockAnswer[]) => T,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#over !== undefined) return reject(this.#over);
      if (this.#queue.length >= mostAsked) {
        return reject(new ControlTimeoutError('Too many commands wait for an answer.'));
      }
      const cancel = this.#clock.after(deadlineMs, () =>
        reject(new ControlTimeoutError(`No answer within ${deadlineMs} ms`)),
      );
      this.#queue.push({
        bracket,
        answer(answers) {
          cancel();
          try {
            resolve(read(answers));
          } catch (error) {
            reject(error);
          }
        },
        fail(error) {
          cancel();
          reject(error);
        },
      });
      if (this.#unsent === undefined) this.#connection.input.write(text);
      else this.#unsent.push(text);
    });
  }

  /** The first thing that tmux tells of the session. */
  #attached(): void {
    const lines = this.#unsent ?? [];
    this.#unsent = undefined;
    for (const text of lines) this.#connection.input.write(text);
  }

  #end(error: ControlEndedError): void {
    if (this.#over !== undefined) return;
    this.#over = error;
    for (const asked of this.#queue.splice(0)) asked.fail(error);
    // Also drains what still comes, so that the process can end.
    this.#connection.output.resume();
    if (error.cause !== undefined) void this.#connection[Symbol.asyncDispose]();
  }
}
