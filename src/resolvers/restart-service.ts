import { z } from 'zod';
import { mayAdminister } from '../auth/authority.ts';
import {
  NotRestartableError,
  type ServiceManager,
  type ServiceUnit,
  serviceManager,
} from '../service-manager.ts';
import { OperationInProgressError, OutcomeUnknownError, UnsupportedError } from '../tmux/errors.ts';
import type { Prepared } from './act-record.ts';
import { type AuditEventNode, auditEventNode } from './audit-event.ts';
import type { Context } from './context.ts';
import { recorded } from './recorded.ts';
import type { Named } from './user-error.ts';

/**
 * The service has itself restarted by its service manager. What proves it is that this process is told
 * to stop: then the outcome is recorded and answered, for acts finish before the end. When that does
 * not come, what was asked for may still happen.
 */
export interface RestartService {
  readonly idempotencyKey: string;
  readonly reason: string | null;
  readonly password: string | null | undefined;
  readonly grant: string | null | undefined;
}

export interface RestartServicePayloadValue {
  readonly __typename: 'RestartServicePayload';
  readonly unit: string;
  readonly auditEvent: AuditEventNode | null;
}

export const restartServiceErrors = [
  'UnsupportedError',
  'OperationInProgressError',
  'ReauthenticationRequiredError',
  'AuditUnavailableError',
  'IdempotencyConflictError',
  'OutcomeUnknownError',
] as const;

const stopWithinMs = 10_000;

export async function restartService(
  context: Context,
  { idempotencyKey, reason, password, grant }: RestartService,
  manager: ServiceManager = serviceManager(context.config),
): Promise<RestartServicePayloadValue | Named<(typeof restartServiceErrors)[number]>> {
  const { viewer, address, reauthentication, draining } = context;
  const action = 'RESTART_SERVICE';
  const end = await recorded(context, {
    errors: restartServiceErrors,
    mutation: 'restartService',
    action,
    what: 'restarting the service',
    idempotencyKey,
    reason,
    target: { memberId: null, id: null, label: null, generation: null },
    input: { reason },
    facts: null,
    allowed: mayAdminister,
    reauthenticate: () =>
      reauthentication.require(viewer, { password, grant }, address, {
        ...{ action, targets: [], memberId: null },
      }),
    async prepare(operationId): Promise<Prepared<ServiceUnit>> {
      const unit = await manager.unit().catch(refusal);
      const running = restarting.get(context.audit);
      if (running !== undefined) throw new OperationInProgressError(running);
      restarting.set(context.audit, operationId);
      return {
        before: null,
        targetLabel: unit.name,
        async run() {
          await manager.restart(unit).catch(refusal);
          if (await isToldToStop(draining)) return unit;
          throw new OutcomeUnknownError(
            `The restart of ${unit.name} was asked for, and in ${stopWithinMs / 1_000} s this service was not told to stop. It may still happen. Look, as root: systemctl status ${unit.name}`,
          );
        },
        [Symbol.dispose]: () => void restarting.delete(context.audit),
      };
    },
    report: ({ name }) => ({
      outcome: 'SUCCEEDED',
      message: `${name} was told to stop, to be started again.`,
      ...{ after: null, survivors: null, answer: { unit: name } },
    }),
  });
  if (end.kind === 'refused') return end.error;
  return {
    __typename: 'RestartServicePayload',
    unit: z.object({ unit: z.string() }).parse(end.answer).unit,
    auditEvent: end.auditEvent && auditEventNode(end.auditEvent),
  };
}

/** The operation that has a service restarted, by the audit log of that service. */
const restarting = new WeakMap<Context['audit'], string>();

function refusal(error: unknown): never {
  if (error instanceof NotRestartableError) throw new UnsupportedError(error.message);
  throw error;
}

function isToldToStop(draining: AbortSignal | undefined): Promise<boolean> {
  if (draining === undefined || draining.aborted) return Promise.resolve(draining !== undefined);
  return new Promise((resolve) => {
    const end = (told: boolean) => {
      clearTimeout(timer);
      draining.removeEventListener('abort', stop);
      resolve(told);
    };
    const stop = () => end(true);
    const timer = setTimeout(end, stopWithinMs, false);
    draining.addEventListener('abort', stop, { once: true });
  });
}
