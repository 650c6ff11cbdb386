import type { Clock } from '../../concurrency/clock.ts';
import { type HelperAnswer, HelperError } from '../member-helper.ts';
import { AnswerBytes } from './answer.ts';
import { helperFailure } from './helper-failure.ts';
import { type Command, drainMs, type Processes } from './process.ts';

export interface OneShot {
  /** The request line, with its LF and the sequence number 1. */
  readonly line: string;
  readonly payload: Uint8Array | undefined;
  readonly clock: Clock;
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
}

/**
 * One request by a process of its own, which is gone when this settles, or being ended. After a
 * rejection what was asked may have happened all the same.
 * @throws HelperError
 */
export async function askOnce(
  processes: Processes,
  command: Command,
  { line, payload, clock, deadlineMs, signal }: OneShot,
): Promise<HelperAnswer> {
  const process = await processes.open(command, 'act', signal);
  const bytes = new AnswerBytes(1, line.split(/[ \n]/)[1] ?? '');
  const { promise, resolve, reject } = Promise.withResolvers<HelperAnswer>();
  const cancel = clock.after(deadlineMs, () =>
    reject(new HelperError('TIMEOUT', `the helper did not answer within ${deadlineMs} ms`)),
  );
  const abort = () => reject(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true });
  process.stdout.on('data', (chunk: Buffer) => {
    try {
      if (bytes.push(chunk)) resolve(bytes.answer());
    } catch (error) {
      reject(error);
    }
  });
  void process.exited.then((exit) => {
    // What it wrote last may still be in the pipe.
    clock.after(drainMs, () => reject(helperFailure(command, exit, process.stderr())));
  });
  process.stdin.write(line);
  if (payload !== undefined) process.stdin.write(payload);
  process.stdin.end();
  try {
    const answer = await promise;
    void process.close();
    return answer;
  } catch (error) {
    void process.end();
    throw error;
  } finally {
    cancel();
    signal?.removeEventListener('abort', abort);
  }
}
