import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';

/** Where a command reads and writes; texts are whole lines. */
export interface Io {
  readonly environment: NodeJS.ProcessEnv;
  /** @throws OutputLostError */
  out(text: string): void;
  /** Notes for people: not part of what a script reads. */
  note(text: string): void;
  /** A secret typed twice at a terminal, or the first line of the input. */
  readSecret(prompt: string): Promise<string>;
}

export interface Command {
  /** One line for the list of commands. */
  readonly summary: string;
  /** The whole help. */
  readonly help: string;
  /** Gives the exit status; throws for what can't be done. */
  run(words: readonly string[], io: Io): Promise<number>;
}

/** The words make no sense: exit status 2, and where to read how. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  /** The words that name the command, filled in on the way up. */
  command: readonly string[] = [];
}

/** It can't be done, for a reason that the message tells; exit status 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** @throws UsageError for options that there are not */
export function readWords<const T extends ParseArgsOptionsConfig>(
  words: readonly string[],
  options: T,
) {
  try {
    return parseArgs({ args: [...words], options, allowPositionals: true, strict: true });
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(said.replace(/\. To specify a positional.*$/s, '.'));
  }
}

/** What the command writes reaches nobody any more. Whoever can be told, was. */
export class OutputLostError extends Error {
  override readonly name = 'OutputLostError';
  readonly status: number;
  constructor(status: number, cause: Error) {
    super('The output is lost.', { cause });
    this.status = status;
  }
}

/** Exactly these positional words. @throws UsageError */
export function exactly<const Names extends readonly string[]>(
  positionals: readonly string[],
  ...names: Names
): { [Index in keyof Names]: string } {
  const missing = names[positionals.length];
  if (missing !== undefined) throw new UsageError(`${missing} is missing.`);
  const extra = positionals[names.length];
  if (extra !== undefined) throw new UsageError(`'${extra}' is one word too many.`);
  return names.map((_, index) => positionals[index] ?? '') as {
    [Index in keyof Names]: string;
  };
}

/** One of the words that are allowed, in any case. @throws UsageError that lists them */
export function oneOf<const T extends string>(
  option: string,
  text: string,
  allowed: readonly T[],
): T {
  const found = allowed.find((word) => word.toLowerCase() === text.toLowerCase());
  if (found !== undefined) return found;
  throw new UsageError(`${option} takes ${allowed.join(', ')}, not '${text}'.`);
}

/** A command made of commands: `members add`. */
export function group(
  name: string,
  summary: string,
  commands: Readonly<Record<string, Command>>,
): Command {
  const width = Math.max(...Object.keys(commands).map((word) => word.length));
  const list = Object.entries(commands)
    .map(([word, command]) => `  ${word.padEnd(width)}  ${command.summary}`)
    .join('\n');
  const help = `muxwarden ${name} COMMAND\n\n${summary}\n\n${list}\n\nmuxwarden ${name} COMMAND --help tells more.`;
  return {
    summary,
    help,
    async run([word, ...words], io) {
      const names = Object.keys(commands).join(', ');
      if (word === undefined) throw new UsageError(`Say which: ${names}.`);
      const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
      if (command === undefined) {
        throw new UsageError(`There is no 'muxwarden ${name} ${word}'. There are: ${names}.`);
      }
      return await runOrHelp(word, command, words, io);
    },
  };
}

/** @throws UsageError that names the command */
export async function runOrHelp(
  word: string,
  command: Command,
  words: readonly string[],
  io: Io,
): Promise<number> {
  const end = words.indexOf('--');
  const options = end < 0 ? words : words.slice(0, end);
  if ((options.includes('--help') || options.includes('-h')) && !isGroup(command, words)) {
    io.out(command.help);
    return 0;
  }
  try {
    return await command.run(words, io);
  } catch (error) {
    if (error instanceof UsageError) error.command = [word, ...error.command];
    throw error;
  }
}

/** A group passes `--help` on when a word before it names one of its commands. */
function isGroup(command: Command, words: readonly string[]): boolean {
  return / COMMAND\n/.test(command.help) && words[0]?.startsWith('-') === false;
}
