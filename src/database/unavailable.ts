import { escapeText } from '../escape.ts';

/**
 * The database can't be used. The message is a sentence that says what to do and never holds a
 * password; `logLines` are the server's own last words, where we run it ourselves.
 */
export class DatabaseUnavailableError extends Error {
  override readonly name = 'DatabaseUnavailableError';
  readonly logLines: readonly string[];
  constructor(message: string, logLines: readonly string[] = [], cause?: unknown) {
    super(message, { cause });
    this.logLines = logLines;
  }
}

/** What a connection was to reach, for messages. */
export interface Destination {
  /** As users would name it, without a password. */
  readonly target: string;
  readonly user: string;
  readonly database: string;
  readonly password: string | undefined;
}

/** The SQLSTATE or the system's code of an error that PostgreSQL or the way to it gave. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;
}

/** The sentence for an error of a connection or of the first statements on it. */
export function unavailable(to: Destination, cause: unknown): DatabaseUnavailableError {
  if (cause instanceof DatabaseUnavailableError) return cause;
  const said = cause instanceof Error ? cause.message : String(cause);
  return new DatabaseUnavailableError(sentence(to, codeOf(cause), said), [], cause);
}

function sentence(to: Destination, code: string | undefined, said: string): string {
  const at = `PostgreSQL at ${escapeText(to.target)}`;
  const user = `'${escapeText(to.user)}'`;
  const database = `'${escapeText(to.database)}'`;
  switch (code) {
    case 'ECONNREFUSED':
    case 'ENOENT':
      return `${at} accepts no connections (${code}). Start it, or correct DATABASE_URL; without DATABASE_URL muxwarden runs its own PostgreSQL.`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The host of ${at} can't be found (${code}). Correct DATABASE_URL.`;
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `${at} can't be reached (${code}). Check the network and DATABASE_URL.`;
    case '28P01':
      return `${at} refused the password of user ${user}. Correct DATABASE_URL.`;
    case '28000':
      return `${at} does not let user ${user} in. Correct DATABASE_URL, create that role, or allow it in pg_hba.conf.`;
    case '3D000':
      return `${at} has no database ${database}. Create it (createdb ${database}), or correct DATABASE_URL.`;
    case '42501':
      return `User ${user} of ${at} may not do what muxwarden needs: ${clean(to, said)}. Make it the owner of database ${database}.`;
    case '53100':
      return `The disk of ${at} is full. Free some space there.`;
    case '53300':
      return `${at} has no connection left. Raise its max_connections, or end other clients.`;
    case '57P03':
    case '57P01':
      return `${at} is starting or stopping. Try again in a moment.`;
    default:
      break;
  }
  if (/timeout/i.test(said)) {
    return `${at} does not answer in time. Check that it runs, the network and DATABASE_URL.`;
  }
  if (/password must be/.test(said)) {
    return `${at} asks user ${user} for a password and DATABASE_URL has none. Put it there.`;
  }
  return `${at} can't be used: ${clean(to, said)}. Correct DATABASE_URL, or mend that server.`;
}

function clean(to: Destination, said: string): string {
  return escapeText(to.password ? said.replaceAll(to.password, '…') : said).replace(/\.$/, '');
}
