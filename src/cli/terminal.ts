import { constants } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { CommandError, type Io, OutputLostError } from './command.ts';

/** The process's own input and output. */
export function processIo(): Io {
  let lost: OutputLostError | undefined;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (lost !== undefined) return;
    // Whoever reads may leave early, as `head` does: no word about it, but never as if all had been said.
    const isLeft = error.code === 'EPIPE';
    lost = new OutputLostError(isLeft ? 128 + constants.signals.SIGPIPE : 1, error);
    process.exitCode = lost.status;
    if (!isLeft)
      process.stderr.write(`muxwarden: The output can't be written: ${error.message}.\n`);
  });
  // Notes that nobody reads change nothing about what is done.
  process.stderr.on('error', () => {});
  return {
    environment: process.env,
    out(text) {
      if (lost !== undefined) throw lost;
      process.stdout.write(`${text}\n`);
    },
    note: (text) => void process.stderr.write(`${text}\n`),
    readSecret: (prompt) => (process.stdin.isTTY ? typedTwice(prompt) : firstLine()),
  };
}

async function typedTwice(prompt: string): Promise<string> {
  const once = await typed(`${prompt}: `);
  if ((await typed('Once more: ')) === once) return once;
  throw new CommandError('The two differ. Nothing was changed.');
}

/** Without an echo. */
async function typed(prompt: string): Promise<string> {
  process.stderr.write(prompt);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true });
  const stop = new AbortController();
  lines.once('SIGINT', () => stop.abort());
  lines.once('close', () => stop.abort());
  try {
    return await lines.question('', { signal: stop.signal });
  } catch (cause) {
    throw new CommandError('Stopped. Nothing was changed.', { cause });
  } finally {
    lines.close();
    process.stderr.write('\n');
  }
}

async function firstLine(): Promise<string> {
  const lines = createInterface({ input: process.stdin });
  try {
    for await (const line of lines) return line;
    throw new CommandError('Nothing was given: put the secret on the first line of the input.');
  } finally {
    lines.close();
  }
}
