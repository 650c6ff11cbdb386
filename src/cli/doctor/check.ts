import type { Config } from '../../config.ts';
import { isSystemError } from '../../system-error.ts';

/** One thing that was looked at. */
export interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  /** What to do; null when all is well. */
  readonly remedy: string | null;
}

export type Checks = (config: Config, environment: NodeJS.ProcessEnv) => AsyncIterable<Check>;

export const good = (name: string, detail: string): Check => ({
  name,
  ok: true,
  detail,
  remedy: null,
});

export const bad = (name: string, detail: string, remedy: string): Check => ({
  name,
  ok: false,
  detail,
  remedy,
});

/** What the system refuses to show is said in its own words: it may well be there. */
export async function looked(
  name: string,
  path: string,
  look: () => Promise<Check>,
): Promise<Check> {
  try {
    return await look();
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause)) throw cause;
    return bad(
      name,
      `can't be looked at: ${cause.message}`,
      isSystemError(cause, 'EACCES', 'EPERM')
        ? 'Run it as root: muxwarden doctor'
        : `See as root what stands there and above it: namei -l ${path}`,
    );
  }
}
