import type { Clock } from '../../concurrency/clock.ts';
import { escapeText } from '../../escape.ts';
import { type ControlConnection, HelperError } from '../member-helper.ts';
import { helperFailure } from './helper-failure.ts';
import type { Command, LiveProcess, Processes } from './process.ts';

const lf = 0x0a;
const maxFirstLineBytes = 4_096;

/**
 * A control client, from its `ready` line on. The signal bounds its whole life.
 * @throws HelperError, with the helper's CODE where it refused
 */
export async function openControl(
  processes: Processes,
  command: Command,
  line: string,
  clock: Clock,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<ControlConnection> {
  const process = await processes.open(command, 'read', signal);
  // Closing its input is how a control client ends; signals are for one that does not.
  const close = () => void process.close();
  signal.addEventListener('abort', close, { once: true });
  void process.exited.then(() => signal.removeEventListener('abort', close));
  try {
    process.stdin.write(line);
    const { pid, version } = await ready(process, command, clock, deadlineMs, signal);
    process.started();
    return {
      pid,
      version,
      input: process.stdin,
      output: process.stdout,
      ended: process.exited.then(() => {}),
      async [Symbol.asyncDispose]() {
        await process.close();
      },
    };
  } catch (error) {
    void process.end();
    throw error;
  }
}

function ready(
  process: LiveProcess,
  command: Command,
  clock: Clock,
  deadlineMs: number,
  signal: AbortSignal,
): Promise<{ readonly pid: number; readonly version: string }> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0);
    const cancel = clock.after(deadlineMs, () =>
      reject(new HelperError('TIMEOUT', `no control client within ${deadlineMs} ms`)),
    );
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    // Not `data`: whoever reads from here on is to find the stream as if nobody had.
    const hear = () => {
      const chunk: Buffer | null = process.stdout.read();
      if (chunk === null) return;
      bytes = Buffer.concat([bytes, chunk]);
      for (let end = bytes.indexOf(lf); end !== -1; end = bytes.indexOf(lf)) {
        const fields = bytes.toString('utf8', 0, end).split('\t');
        bytes = bytes.subarray(end + 1);
        if (fields[0] === 'begin') continue;
        settle();
        if (fields[0] !== 'ready') return reject(refusal(fields));
        if (bytes.length > 0) process.stdout.unshift(bytes);
        return resolve({ pid: Number(fields[1]), version: fields[2] ?? '' });
      }
      if (bytes.length > maxFirstLineBytes) {
        settle();
        reject(new HelperError('MALFORMED_ANSWER', 'the helper began with an endless line'));
      }
    };
    const settle = () => {
      cancel();
      signal.removeEventListener('abort', abort);
      process.stdout.off('readable', hear);
    };
    process.stdout.on('readable', hear);
    void process.exited.then((exit) => {
      settle();
      reject(helperFailure(command, exit, process.stderr()));
    });
  });
}

function refusal(fields: readonly string[]): HelperError {
  const [kind, code = '', detail = ''] = fields;
  if (kind !== 'fail') {
    return new HelperError('MALFORMED_ANSWER', 'the helper began with what it never should');
  }
  const reason = code === 'EACCES' || code === 'TIMEOUT' ? code : 'HELPER_FAILED';
  return new HelperError(reason, `no control client (${code}): ${escapeText(detail)}`, { code });
}
