import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { escapeText } from '../escape.ts';
import { DatabaseUnavailableError } from './unavailable.ts';

/** Where the embedded PostgreSQL keeps what it has. */
export interface Places {
  readonly root: string;
  readonly data: string;
  readonly socket: string;
  readonly password: string;
  readonly log: string;
}

export function placesIn(stateDir: string): Places {
  const root = join(stateDir, 'postgres');
  return {
    root,
    data: join(root, 'data'),
    socket: join(root, 'socket'),
    password: join(root, 'password'),
    log: join(root, 'log'),
  };
}

const whyUnreadable = (cause: Error) => `Its log can't be read: ${cause.message}`;

/** Why it can't be used, with the last lines that it said itself: here, or in its log. */
export async function failure(
  places: Places,
  what: string,
  said?: readonly string[],
  cause?: unknown,
): Promise<DatabaseUnavailableError> {
  const log =
    said?.some((line) => line.trim()) === true
      ? said
      : (await readFile(places.log, 'utf8').catch(whyUnreadable)).split('\n');
  const lines = log.filter((line) => line.trim()).map(escapeText);
  const full = lines.some((line) => /No space left on device|Disk quota exceeded/.test(line));
  const remedy = full
    ? `The disk of ${places.root} is full: free some space, or set MUXWARDEN_STATE_DIR or DATABASE_URL.`
    : `Its own words follow. Mend that, or set DATABASE_URL to a PostgreSQL server.`;
  return new DatabaseUnavailableError(
    `${what} in ${places.root}. ${remedy}`,
    lines.slice(-10),
    cause,
  );
}
