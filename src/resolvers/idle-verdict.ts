import { idleness } from '../tmux/idle.ts';
import type { ServerView } from '../tmux/model.ts';

/** What became, or would become, of one server in a restart of those that are idle. */
export const restartIdleOutcomes = [
  'RESTARTED',
  'SKIPPED_BUSY',
  'SKIPPED_CURRENT',
  'SKIPPED_UNKNOWN',
  'SKIPPED_CHANGED',
  'STUCK',
  'FAILED',
  'OUTCOME_UNKNOWN',
] as const;
export type RestartIdleOutcome = (typeof restartIdleOutcomes)[number];

export interface Verdict {
  readonly outcome: RestartIdleOutcome;
  /** Sentences. */
  readonly evidence: readonly string[];
}

/**
 * What a listing says: RESTARTED for a server that is proved outdated and idle. What is not known is
 * never restarted, and said before anything else.
 * @param view undefined: it is in no listing, though we could look
 * @param expected the generation that was named; undefined: none was
 */
export function verdictOn(
  view: ServerView | undefined,
  expected: string | undefined,
  idleAfterMs: number,
): Verdict {
  if (view === undefined || view.status === 'ABSENT') return changed('it is not there any more');
  const { status, generation, listing, version, installedVersion, outdated } = view;
  if (expected !== undefined && generation !== null && generation !== expected)
    return changed('another life of it runs by now');
  const { idle, evidence } = idleness(view, listing.observedAt ?? new Date(0), idleAfterMs);
  if (status !== 'RUNNING' || listing.state !== 'FRESH' || generation === null)
    return { outcome: 'SKIPPED_UNKNOWN', evidence };
  if (outdated === null)
    return {
      outcome: 'SKIPPED_UNKNOWN',
      evidence: [
        `it runs ${version ?? 'a version that is not known'}, and ${installedVersion ?? 'no tmux that runs'} is installed`,
      ],
    };
  if (!outdated) {
    const beside =
      version === installedVersion
        ? 'as is installed'
        : `newer than the installed ${installedVersion}`;
    return { outcome: 'SKIPPED_CURRENT', evidence: [`it runs ${version}, ${beside}`] };
  }
  const outcome =
    idle === null ? 'SKIPPED_UNKNOWN' : idle ? ('RESTARTED' as const) : 'SKIPPED_BUSY';
  return { outcome, evidence };
}

const changed = (what: string): Verdict => ({ outcome: 'SKIPPED_CHANGED', evidence: [what] });
