import { mayAdminister } from '../auth/authority.ts';
import { limitsOf } from '../config.ts';
import type { FleetFigures, Problem } from '../tmux/fleet.ts';
import type { Context } from './context.ts';
import { visibleMember } from './listing.ts';
import type { MemberNode } from './nodes.ts';
import { forbidden } from './request-error.ts';

export interface InstallationValue extends FleetFigures {
  readonly version: string;
  readonly startedAt: Date;
  readonly mode: 'LOCAL' | 'SYSTEM';
  readonly problems: readonly Problem[];
  readonly eventLoopDelayP99Ms: number;
  readonly limits: readonly { readonly name: string; readonly value: number }[];
}

/** @throws RequestError (FORBIDDEN) but for an ADMIN */
export function installation(context: Context): InstallationValue {
  if (!mayAdminister(context.viewer)) throw forbidden('looking at the installation');
  const { config, fleet, installation } = context;
  return {
    ...fleet.figures(),
    version: installation.version,
    startedAt: installation.startedAt,
    mode: config.mode === 'local' ? 'LOCAL' : 'SYSTEM',
    problems: problemsOf(context),
    eventLoopDelayP99Ms: installation.eventLoopDelayP99Ms(),
    limits: limitsOf(config),
  };
}

export function problemsOf({ fleet, audit }: Pick<Context, 'fleet' | 'audit'>): readonly Problem[] {
  return [...fleet.problems(), ...audit.problems()];
}

export function visibleProblemMember(context: Context, { memberId }: Problem): MemberNode | null {
  return memberId === null ? null : visibleMember(context, memberId);
}
