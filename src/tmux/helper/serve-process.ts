import type { Clock } from '../../concurrency/clock.ts';
import { type HelperAnswer, HelperError } from '../member-helper.ts';
import { AnswerBytes } from './answer.ts';
import { helperFailure } from './helper-failure.ts';
import { type Command, drainMs, type LiveProcess } from './process.ts';

/**
 * One `serve` process, one request at a time. It stays in step or is given up: after any failure
 * `alive` is false and it is to be ended.
 */
export class ServeProcess {
  readonly #command: Command;
  readonly #process: LiveProcess;
  readonly #clock: Clock;
  #sequence = 0;
  #alive = true;
  #heard: (chunk: Buffer) => void = () => {
    // Words without a question: what they would be taken for later is not to be found out.
    this.#alive = false;
  };
  #ended: () => unknown = () => {};

  constructor(command: Command, process: LiveProcess, clock: Clock) {
    this.#command = command;
    this.#process = process;
    this.#clock = clock;
    process.stdout.on('data', (chunk: Buffer) => this.#heard(chunk));
    void process.exited.then(() => {
      this.#alive = false;
      // What it wrote last may still be in the pipe.
      clock.after(drainMs, () => this.#ended());
    });
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** 'died-before': one that had answered before ended without a byte for this one. @throws HelperError */
  async ask(request: string, deadlineMs: number): Promise<HelperAnswer | 'died-before'> {
    const sequence = ++this.#sequence;
    const bytes = new AnswerBytes(sequence, request.slice(0, `${request} `.indexOf(' ')));
    const silent = this.#heard;
    const { promise, resolve, reject } = Promise.withResolvers<HelperAnswer | 'died-before'>();
    // Where this process itself was stopped, the answer is there and was only not read yet.
    const cancel = this.#clock.after(deadlineMs, () =>
      setImmediate(() => reject(late(deadlineMs))),
    );
    this.#heard = (chunk) => {
      try {
        if (bytes.push(chunk)) resolve(bytes.answer());
      } catch (error) {
        reject(error);
      }
    };
    this.#ended = async () => {
      if (sequence > 1 && bytes.bytes === 0) return resolve('died-before');
      reject(helperFailure(this.#command, await this.#process.exited, this.#process.stderr()));
    };
    this.#process.stdin.write(`${sequence} ${request}\n`);
    try {
      const answer = await promise;
      this.#process.started();
      return answer;
    } catch (error) {
      this.#alive = false;
      throw error;
    } finally {
      cancel();
      this.#heard = silent;
      this.#ended = () => {};
    }
  }

  async end(): Promise<void> {
    this.#alive = false;
    await this.#process.end();
  }

  async close(): Promise<void> {
    this.#alive = false;
    await this.#process.close();
  }
}

function late(ms: number): HelperError {
  return new HelperError('TIMEOUT', `the helper did not answer within ${ms} ms`);
}
