import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * The member helper, driven directly: no code of the service stands between. An answer counts only
 * with an end record that fits, and with nothing on stderr.
 */

export const helperPath = join(import.meta.dirname, '../../libexec/muxwarden-member');

/** Whom a helper, or a tmux, runs as. */
export interface Runner {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

export const self: Runner = {
  name: 'whoever runs the tests',
  uid: process.getuid?.() ?? 0,
  gid: process.getgid?.() ?? 0,
  home: homedir(),
};

export interface Answer {
  readonly rows: readonly (readonly string[])[];
  readonly failure: readonly [code: string, detail: string] | undefined;
  readonly bytes: number;
}

export interface Exit {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function startHelper(
  argv: readonly string[],
  runner: Runner = self,
  env: Readonly<Record<string, string>> = {},
): ChildProcessWithoutNullStreams {
  return spawn(helperPath, argv, {
    uid: runner.uid,
    gid: runner.gid,
    env: { PATH: '/usr/bin:/bin', ...env },
    stdio: 'pipe',
  });
}

/** The whole life of one helper, with what it is given on its input. */
export async function runHelper(
  argv: readonly string[],
  input: string | Uint8Array,
  runner: Runner = self,
  env: Readonly<Record<string, string>> = {},
): Promise<Exit> {
  const child = startHelper(argv, runner, env);
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout: stdout().toString('utf8'), stderr: stderr().toString('utf8') };
}

/** One request to a helper of its own. */
export async function askOnce(
  verb: 'serve' | 'act' | 'start' | 'control',
  request: string,
  runner: Runner = self,
  payload: Uint8Array = Buffer.alloc(0),
): Promise<Answer> {
  const input = Buffer.concat([Buffer.from(`7 ${request}\n`), payload]);
  const { code, stdout, stderr } = await runHelper([verb], input, runner);
  if (code !== 0 || stderr !== '') throw new Error(`exit ${code}: ${stderr}`);
  return parse(Buffer.from(stdout), 7, request);
}

/** A kept `serve`. */
export class ServingHelper implements AsyncDisposable {
  readonly child: ChildProcessWithoutNullStreams;
  #sequence = 0;
  #output = Buffer.alloc(0);
  #wake: () => void = () => {};
  #closed = false;
  readonly #stderr: () => Buffer;

  constructor(runner: Runner = self) {
    this.child = startHelper(['serve'], runner);
    this.#stderr = collect(this.child.stderr);
    this.child.stdout.on('data', (chunk: Buffer) => {
      this.#output = Buffer.concat([this.#output, chunk]);
      this.#wake();
    });
    this.child.on('close', () => {
      this.#closed = true;
      this.#wake();
    });
  }

  async ask(request: string): Promise<Answer> {
    const sequence = ++this.#sequence;
    this.#output = Buffer.alloc(0);
    this.child.stdin.write(`${sequence} ${request}\n`);
    while (!/(^|\n)end\t\d+\t\d+\t\d+\n$/.test(this.#output.toString('latin1', -60))) {
      if (this.#closed) throw new Error(`the helper ended: ${this.#stderr()}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#stderr().length > 0) throw new Error(`on stderr: ${this.#stderr()}`);
    return parse(this.#output, sequence, request);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    const closed = once(this.child, 'close');
    this.child.stdin.end();
    await closed;
  }
}

export const hex = (text: string | Uint8Array) =>
  (typeof text === 'string' ? Buffer.from(text) : Buffer.from(text)).toString('hex');
export const unhex = (text: string | undefined) => Buffer.from(text ?? '', 'hex');

export function rowsOf(answer: Answer, kind: string): readonly (readonly string[])[] {
  return answer.rows.filter(([name]) => name === kind).map(([, ...fields]) => fields);
}

function parse(output: Buffer, sequence: number, request: string): Answer {
  const lines = output.toString('utf8').split('\n');
  const end = lines.at(-2) ?? '';
  const rows = lines.slice(1, -2);
  const body = output.subarray(output.indexOf(10) + 1, output.lastIndexOf(10, -2) + 1);
  const name = request.split(' ')[0];
  if (lines[0] !== `begin\t${sequence}\t${name}`) throw new Error(`it begins with ${lines[0]}`);
  if (end !== `end\t${sequence}\t${rows.length}\t${body.length}`) {
    throw new Error(`${end} does not fit ${rows.length} rows and ${body.length} bytes`);
  }
  const fields = rows.map((row) => row.split('\t'));
  const failed = fields.find(([kind]) => kind === 'fail');
  return {
    rows: fields.filter((row) => row !== failed),
    failure: failed && [failed[1] ?? '', failed[2] ?? ''],
    bytes: output.length,
  };
}

function collect(stream: NodeJS.ReadableStream): () => Buffer {
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  return () => Buffer.concat(chunks);
}
