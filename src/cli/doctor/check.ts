import type { Config } from '../../config.ts';

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
