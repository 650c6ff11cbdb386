import { ConfigError } from '../config.ts';
import { escapeText } from '../escape.ts';
import { ownVersion } from '../own-version.ts';
import {
  type Command,
  CommandError,
  type Io,
  OutputLostError,
  runOrHelp,
  UsageError,
} from './command.ts';

/**
 * The command `muxwarden`: what is asked for is loaded, nothing else. Exit status 0: done; 1: it
 * can't be done, and one sentence says why and what to do; 2: the words make no sense.
 */
const commands: Readonly<Record<string, { summary: string; load(): Promise<Command> }>> = {
  serve: {
    summary: 'run the service',
    load: async () => (await import('./serve.ts')).serve,
  },
  login: {
    summary: 'print a link that signs in once',
    load: async () => (await import('./login.ts')).login,
  },
  members: {
    summary: 'add, list, change members',
    load: async () => (await import('./members.ts')).members,
  },
  keys: {
    summary: 'make, list, revoke API keys',
    load: async () => (await import('./keys.ts')).keys,
  },
  audit: {
    summary: 'check the audit log, write it out',
    load: async () => (await import('./audit.ts')).audit,
  },
  doctor: {
    summary: 'check what the service needs',
    load: async () => (await import('./doctor.ts')).doctor,
  },
  'install-system': {
    summary: 'install the service for members who are Linux users',
    load: async () => (await import('./install-system.ts')).installSystem,
  },
  restart: {
    summary: 'have the service manager restart the service',
    load: async () => (await import('./restart.ts')).restart,
  },
  migrate: {
    summary: 'bring the database to what this version needs',
    load: async () => (await import('./migrate.ts')).migrate,
  },
  schema: {
    summary: 'print the GraphQL schema',
    load: async () => (await import('./schema.ts')).schema,
  },
};

/** Gives the exit status; never throws. */
export async function run(words: readonly string[], io: Io): Promise<number> {
  try {
    return await dispatch(words, io);
  } catch (error) {
    return report(error, io);
  }
}

async function dispatch([word, ...words]: readonly string[], io: Io): Promise<number> {
  if (word === undefined || word === 'help' || word === '--help' || word === '-h') {
    io.out(help());
    return word === undefined ? 2 : 0;
  }
  if (word === '--version' || word === 'version') {
    io.out(await ownVersion());
    return 0;
  }
  const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
  if (command === undefined) {
    throw new UsageError(
      `There is no 'muxwarden ${word}'. There are: ${Object.keys(commands).join(', ')}.`,
    );
  }
  return runOrHelp(word, await command.load(), words, io);
}

function help(): string {
  const width = Math.max(...Object.keys(commands).map((word) => word.length));
  const list = Object.entries(commands).map(
    ([word, { summary }]) => `  ${word.padEnd(width)}  ${summary}`,
  );
  return `muxwarden COMMAND

The control plane for tmux on shared machines.

${list.join('\n')}

muxwarden COMMAND --help tells more. Settings come from the environment: docs/configuration.md.`;
}

/** The classes whose message is a sentence for whoever typed the command. */
const told = new Set([
  ...[CommandError.name, ConfigError.name, 'DatabaseUnavailableError', 'StateDirectoryError'],
  ...[
    'StateDirectoryHeldError',
    'InvalidMemberError',
    'MemberExistsError',
    'MemberNotFoundError',
    'LastAdminError',
  ],
  ...['InvalidApiKeyError', 'PasswordsBusyError', 'AuditUnavailableError'],
  ...['AuditKeyError', 'ChainTakenError', 'ListenError'],
]);

function report(error: unknown, io: Io): number {
  if (error instanceof OutputLostError) return error.status;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof UsageError) {
    io.note(`muxwarden: ${escapeText(message)}`);
    io.note(`Try: muxwarden ${[...error.command, '--help'].join(' ')}`);
    return 2;
  }
  if (error instanceof Error && told.has(error.name)) {
    io.note(`muxwarden: ${escapeText(message)}`);
    if ('logLines' in error && Array.isArray(error.logLines)) {
      for (const line of error.logLines) io.note(`  ${line}`);
    }
    return 1;
  }
  io.note(`muxwarden: This should not happen: ${escapeText(message)}`);
  if (io.environment.MUXWARDEN_DEBUG && error instanceof Error) {
    io.note((error.stack ?? '').split('\n').map(escapeText).join('\n'));
  } else {
    io.note('MUXWARDEN_DEBUG=1 shows where. Please report it.');
  }
  return 1;
}
