import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';

/** A setting that can't be used: says which one, and what would be right. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

const text = z.string().trim().min(1, 'it is empty');
const list = (separator: string) =>
  text.transform((value) =>
    value
      .split(separator)
      .map((part) => part.trim())
      .filter(Boolean),
  );
const agentName = /^[A-Za-z0-9][\w.+-]{0,31}$/;
/** `kind=name|name,…` as the kind of each name. */
const agentTable = text.transform((value, context) => {
  const kinds = new Map<string, string>();
  for (const entry of value.split(',')) {
    const [kind = '', names = kind, ...more] = entry.trim().split('=');
    for (const name of [kind, ...names.split('|')]) {
      if (agentName.test(name) && more.length === 0) continue;
      context.addIssue({
        code: 'custom',
        message: `'${entry.trim()}' is not kind or kind=name|name, each of 32 letters, digits, _ . + - at most`,
      });
      return z.NEVER;
    }
    for (const name of names.split('|')) kinds.set(name, kind);
  }
  if ([...kinds.keys()].join('').length <= mostAgentLetters) return kinds;
  context.addIssue({
    code: 'custom',
    message: `its names have ${mostAgentLetters} letters together at most`,
  });
  return z.NEVER;
});
/** They go with each request to the helper, as hex, in a line of 4 KiB. */
const mostAgentLetters = 400;
const knownAgents =
  'claude=claude|claude-code,codex,gemini=gemini|gemini-cli,aider,opencode=opencode|opencode-ai,cursor-agent,copilot,qwen=qwen|qwen-code,amp,crush';
const whole = (low: number, high: number) => {
  const range = `it takes a whole number from ${low} to ${high}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, range)
    .transform(Number)
    .pipe(z.number().min(low, range).max(high, range));
};
/** The value itself is never shown: it may hold a password. */
const address = (protocol: RegExp, example: string) =>
  z.url({ protocol, error: `it takes a URL like ${example}` });
const setting = <T extends z.ZodType>(type: T, fallback: z.output<T>) =>
  z
    .preprocess((value) => (value === '' ? undefined : value), type.optional())
    .transform((value) => (value === undefined ? fallback : value) as z.output<T>);

/** One row a limit: environment name, default, lowest and highest value. */
const numbers = {
  port: ['MUXWARDEN_PORT', 4000, 0, 65_535],
  listingIntervalMs: ['MUXWARDEN_LISTING_INTERVAL_MS', 5_000, 100, 3_600_000],
  listingFreshGraceMs: ['MUXWARDEN_LISTING_FRESH_GRACE_MS', 3_000, 0, 3_600_000],
  listingMaxAgeMs: ['MUXWARDEN_LISTING_MAX_AGE_MS', 15_000, 100, 3_600_000],
  listingColdWaitMs: ['MUXWARDEN_LISTING_COLD_WAIT_MS', 2_000, 0, 60_000],
  listingBackOffMs: ['MUXWARDEN_LISTING_BACK_OFF_MS', 5_000, 100, 3_600_000],
  listingBackOffMaxMs: ['MUXWARDEN_LISTING_BACK_OFF_MAX_MS', 60_000, 100, 3_600_000],
  helperIdleMs: ['MUXWARDEN_HELPER_IDLE_MS', 60_000, 0, 3_600_000],
  processLimit: ['MUXWARDEN_PROCESS_LIMIT', 8, 1, 256],
  outputLogBytes: ['MUXWARDEN_OUTPUT_LOG_BYTES', 1 << 20, 1 << 12, 1 << 28],
  lingerMs: ['MUXWARDEN_LINGER_MS', 30_000, 0, 3_600_000],
  idleAfterMs: ['MUXWARDEN_IDLE_AFTER_MS', 600_000, 1_000, 86_400_000],
  maxBodyBytes: ['MUXWARDEN_MAX_BODY_BYTES', 65_536, 1_024, 1 << 24],
  maxDepth: ['MUXWARDEN_MAX_DEPTH', 12, 1, 100],
  maxTokens: ['MUXWARDEN_MAX_TOKENS', 1_000, 10, 100_000],
  maxAliases: ['MUXWARDEN_MAX_ALIASES', 30, 0, 10_000],
  maxComplexity: ['MUXWARDEN_MAX_COMPLEXITY', 2_000, 1, 1_000_000],
  maxPageSize: ['MUXWARDEN_MAX_PAGE_SIZE', 100, 1, 10_000],
  maxSubscriptionsPerSocket: ['MUXWARDEN_MAX_SUBSCRIPTIONS_PER_SOCKET', 50, 1, 100_000],
  maxSubscriptionsPerActor: ['MUXWARDEN_MAX_SUBSCRIPTIONS_PER_ACTOR', 200, 1, 100_000],
} as const satisfies Record<string, readonly [string, number, number, number]>;

/** The settings beside the numbers. */
export const otherNames = [
  'MUXWARDEN_HOST',
  'MUXWARDEN_PUBLIC_URL',
  'MUXWARDEN_ALLOWED_ORIGINS',
  'MUXWARDEN_ALLOWED_HOSTS',
  'MUXWARDEN_TRUSTED_PROXIES',
  'MUXWARDEN_STATE_DIR',
  'MUXWARDEN_MODE',
  'MUXWARDEN_SOCKET_DIRS',
  'MUXWARDEN_TMUX_BIN',
  'MUXWARDEN_HELPER',
  'MUXWARDEN_PROVISION',
  'MUXWARDEN_HOOKS_DIR',
  'MUXWARDEN_AGENTS',
  'MUXWARDEN_TRUSTED_DOCUMENTS',
  'MUXWARDEN_RESTART_FILE',
  'MUXWARDEN_DEBUG',
] as const;

type NumberName = keyof typeof numbers;

export interface Config extends Readonly<Record<NumberName, number>> {
  readonly host: string;
  /** Undefined: derived from host and port once the port is known. */
  readonly publicUrl: string | undefined;
  readonly allowedOrigins: readonly string[];
  readonly allowedHosts: readonly string[];
  readonly trustedProxies: readonly string[];
  readonly stateDir: string;
  readonly databaseUrl: string | undefined;
  readonly mode: 'local' | 'system';
  /** Absolute directories; `$UID`, `$USER` and `$HOME` stand for the member's. */
  readonly socketDirs: readonly string[];
  /** A name to be found on PATH, or an absolute path. */
  readonly tmuxBin: string;
  readonly helper: string;
  /** The installed program that makes accounts; empty: accounts are not made here. */
  readonly provision: string;
  /** Where members' tools report: a folder for each member, or in local mode the folder itself. */
  readonly hooksDir: string;
  /** Comes along, and runs as the service. */
  readonly hooksProgram: string;
  /** The kind of agent that goes by each name. */
  readonly agents: ReadonlyMap<string, string>;
  /** A file of the documents that browser sessions may send; undefined: they may send any. */
  readonly trustedDocuments: string | undefined;
  /** A file whose writing has root restart the unit of the service; undefined: there is no such. */
  readonly restartFile: string | undefined;
  /** NODE_ENV is `production`: only an ADMIN may ask for the schema. */
  readonly production: boolean;
}

/**
 * The environment as a frozen configuration; every default works.
 * @throws ConfigError that names the variable and what it takes
 */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): Config {
  const socketDirsOf = (stateDir: string, mode: 'local' | 'system') =>
    mode === 'system'
      ? ['/tmp/tmux-$UID']
      : [`${resolve(environment.TMUX_TMPDIR || '/tmp')}/tmux-$UID`, join(stateDir, 'tmux')];
  const stateHome =
    environment.XDG_STATE_HOME || join(environment.HOME || homedir(), '.local/state');
  const shape = z.object({
    MUXWARDEN_HOST: setting(text, '127.0.0.1'),
    MUXWARDEN_PUBLIC_URL: setting(
      address(/^https?$/, 'https://mux.example.org'),
      undefined as never,
    ),
    MUXWARDEN_ALLOWED_ORIGINS: setting(list(','), []),
    MUXWARDEN_ALLOWED_HOSTS: setting(list(','), []),
    MUXWARDEN_TRUSTED_PROXIES: setting(list(','), []),
    MUXWARDEN_STATE_DIR: setting(text, join(stateHome, 'muxwarden')),
    DATABASE_URL: setting(
      address(/^postgres(ql)?$/, 'postgres://user:password@host:5432/database'),
      undefined as never,
    ),
    MUXWARDEN_MODE: setting(z.enum(['local', 'system'], 'it takes local or system'), 'local'),
    MUXWARDEN_SOCKET_DIRS: setting(list(':'), []),
    MUXWARDEN_TMUX_BIN: setting(text, 'tmux'),
    MUXWARDEN_HELPER: setting(text, join(import.meta.dirname, '../libexec/muxwarden-member')),
    MUXWARDEN_PROVISION: setting(
      text.refine((path) => path.startsWith('/'), 'it takes an absolute path'),
      '',
    ),
    MUXWARDEN_HOOKS_DIR: setting(
      text.refine((path) => path.startsWith('/'), 'it takes an absolute path'),
      '',
    ),
    MUXWARDEN_AGENTS: setting(agentTable, agentTable.parse(knownAgents)),
    MUXWARDEN_TRUSTED_DOCUMENTS: setting(text, ''),
    MUXWARDEN_RESTART_FILE: setting(text, ''),
    NODE_ENV: setting(text, ''),
    ...Object.fromEntries(
      Object.values(numbers).map(([name, fallback, low, high]) => [
        name,
        setting(whole(low, high), fallback),
      ]),
    ),
  });
  const parsed = shape.safeParse(environment);
  if (!parsed.success) {
    const first = parsed.error.issues[0];
    throw new ConfigError(`${first?.path.join('.')} can't be used: ${first?.message}.`);
  }
  const values: Record<string, unknown> = parsed.data;
  const read = parsed.data;
  const stateDir = resolve(read.MUXWARDEN_STATE_DIR);
  const limits = Object.fromEntries(
    Object.entries(numbers).map(([key, [name]]) => [key, values[name]]),
  ) as Record<NumberName, number>;
  const socketDirs = read.MUXWARDEN_SOCKET_DIRS.length
    ? read.MUXWARDEN_SOCKET_DIRS
    : socketDirsOf(stateDir, read.MUXWARDEN_MODE);
  for (const dir of socketDirs) {
    if (!/^(\/|\$HOME\/)/.test(dir)) {
      throw new ConfigError(`MUXWARDEN_SOCKET_DIRS needs absolute directories, not '${dir}'.`);
    }
  }
  return Object.freeze({
    ...limits,
    host: read.MUXWARDEN_HOST,
    publicUrl: read.MUXWARDEN_PUBLIC_URL,
    allowedOrigins: read.MUXWARDEN_ALLOWED_ORIGINS,
    allowedHosts: read.MUXWARDEN_ALLOWED_HOSTS,
    trustedProxies: read.MUXWARDEN_TRUSTED_PROXIES,
    stateDir,
    databaseUrl: read.DATABASE_URL,
    mode: read.MUXWARDEN_MODE,
    socketDirs,
    tmuxBin: read.MUXWARDEN_TMUX_BIN,
    helper: resolve(read.MUXWARDEN_HELPER),
    provision: read.MUXWARDEN_PROVISION,
    hooksDir:
      read.MUXWARDEN_HOOKS_DIR ||
      (read.MUXWARDEN_MODE === 'system' ? '/var/lib/muxwarden-hooks' : join(stateDir, 'hooks')),
    hooksProgram: join(import.meta.dirname, '../libexec/muxwarden-hooks'),
    agents: read.MUXWARDEN_AGENTS,
    trustedDocuments: read.MUXWARDEN_TRUSTED_DOCUMENTS
      ? resolve(read.MUXWARDEN_TRUSTED_DOCUMENTS)
      : undefined,
    restartFile: read.MUXWARDEN_RESTART_FILE ? resolve(read.MUXWARDEN_RESTART_FILE) : undefined,
    production: read.NODE_ENV === 'production',
  });
}

/** Names in the environment that look like settings and are none: mistyped, or of another version. */
export function unknownSettings(environment: NodeJS.ProcessEnv): readonly string[] {
  const known = new Set<string>([...otherNames, ...Object.values(numbers).map(([name]) => name)]);
  return Object.keys(environment)
    .filter((name) => /^MUXWARDEN_(?!TEST_)/.test(name) && !known.has(name))
    .sort();
}

/** Every numeric limit in force, for `Installation.limits`. */
export function limitsOf(config: Config): readonly { name: string; value: number }[] {
  return Object.entries(numbers).map(([key, [name]]) => ({
    name,
    value: config[key as NumberName],
  }));
}
