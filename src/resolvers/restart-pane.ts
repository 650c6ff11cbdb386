import { z } from 'zod';
import { mayActOnPane } from '../auth/authority.ts';
import type { Survivor } from '../tmux/acts.ts';
import type { PaneRef } from '../tmux/model.ts';
import { type AuditEventNode, auditEventNode } from './audit-event.ts';
import type { Context } from './context.ts';
import { encodeId } from './id.ts';
import { recorded } from './recorded.ts';
import { serverLabel } from './server-now.ts';
import type { Named } from './user-error.ts';

export interface RestartPane {
  readonly pane: PaneRef;
  readonly idempotencyKey: string;
  readonly reason: string | null | undefined;
}

export interface RestartPanePayloadValue {
  readonly __typename: 'RestartPanePayload';
  /** Looked up when it is asked for: it may be gone by then, also in a repeated answer. */
  readonly pane: PaneRef | null;
  readonly auditEvent: AuditEventNode | null;
  readonly survivors: readonly Survivor[];
}

/** The errors of the result's union. */
export const paneErrors = [
  'StaleGenerationError',
  'TmuxServerStuckError',
  'OperationInProgressError',
  'AuditUnavailableError',
  'ListingUnknownError',
  'IdempotencyConflictError',
  'NotFoundError',
  'UnsupportedError',
  'OutcomeUnknownError',
  'WorkingDirectoryMissingError',
] as const;
export type RestartPaneError = Named<(typeof paneErrors)[number]>;

const answer = z.object({
  pane: z
    .object({
      memberId: z.string(),
      pathHex: z.string(),
      generation: z.string(),
      pane: z.int(),
    })
    .nullable(),
  survivors: z.array(z.object({ pid: z.int(), command: z.string() })),
});

/** Ends what runs in a pane and starts its command again, in the same pane. */
export async function restartPane(
  context: Context,
  { pane, idempotencyKey, reason }: RestartPane,
): Promise<RestartPanePayloadValue | RestartPaneError> {
  const id = encodeId({ type: 'TmuxPane', ref: pane });
  const { memberId, pathHex, generation } = pane;
  const end = await recorded(context, {
    errors: paneErrors,
    mutation: 'restartPane',
    action: 'RESTART_PANE',
    what: 'restarting this pane',
    idempotencyKey,
    reason,
    target: { memberId, id, label: `${serverLabel(pathHex)} %${pane.pane}`, generation },
    input: { id, reason: reason ?? null },
    facts: { pathHex, expectedGeneration: generation, pane: pane.pane },
    allowed: (viewer) => mayActOnPane(viewer, memberId),
    prepare: (operationId) => context.fleet.prepareRestartPane({ pane, operationId }),
    report: (result) => ({
      outcome: 'SUCCEEDED',
      message: null,
      after: result.after,
      survivors: result.survivors,
      answer: {
        pane: result.pane && { ...refOf(result.pane) },
        survivors: result.survivors.map(({ pid, command }) => ({ pid, command })),
      },
    }),
  });
  if (end.kind === 'refused') return end.error;
  return {
    __typename: 'RestartPanePayload',
    auditEvent: end.auditEvent && auditEventNode(end.auditEvent),
    ...answer.parse(end.answer),
  };
}

const refOf = ({ memberId, pathHex, generation, pane }: PaneRef) => ({
  memberId,
  pathHex,
  generation,
  pane,
});
