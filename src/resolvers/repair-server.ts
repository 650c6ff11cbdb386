import type { Repair, RepairServerResult } from '../tmux/acts.ts';
import type { Report } from './act-record.ts';
import { type AuditEventNode, auditEventNode } from './audit-event.ts';
import type { Context } from './context.ts';
import type { ServerNode } from './nodes.ts';
import { recorded } from './recorded.ts';
import { onServer, type ServerAct, type ServerActError, serverErrors } from './server-act.ts';
import { serverNow } from './server-now.ts';

export interface RepairTmuxServer extends ServerAct {
  readonly repair: Repair;
}

export interface RepairTmuxServerPayloadValue {
  readonly __typename: 'RepairTmuxServerPayload';
  readonly server: ServerNode;
  readonly auditEvent: AuditEventNode | null;
}

/** Mends a tmux server without ending it. */
export async function repairTmuxServer(
  context: Context,
  input: RepairTmuxServer,
): Promise<RepairTmuxServerPayloadValue | ServerActError> {
  const { server, expectedGeneration, repair } = input;
  const end = await recorded(context, {
    ...onServer(context, input, 'REPAIR_TMUX_SERVER', { repair }),
    errors: serverErrors,
    mutation: 'repairTmuxServer',
    what: 'repairing this tmux server',
    prepare: (operationId) =>
      context.fleet.prepareRepairServer({ server, expectedGeneration, repair, operationId }),
    report,
  });
  if (end.kind === 'refused') return end.error;
  return {
    __typename: 'RepairTmuxServerPayload',
    server: await serverNow(context, server),
    auditEvent: end.auditEvent && auditEventNode(end.auditEvent),
  };
}

function report({ after, ended }: RepairServerResult): Report {
  return {
    outcome: ended ? 'FAILED' : 'SUCCEEDED',
    message: ended
      ? 'The server ended meanwhile: something else ended it, or what it was sent before took effect.'
      : null,
    after,
    survivors: [],
    answer: null,
  };
}
