import { mayActOnServer } from '../auth/authority.ts';
import type { ServerRef } from '../tmux/model.ts';
import type { Context } from './context.ts';
import { encodeId } from './id.ts';
import type { Act } from './recorded.ts';
import { badInput } from './request-error.ts';
import { serverLabel } from './server-now.ts';
import type { Named } from './user-error.ts';

/** An act on a whole tmux server, as the caller asks for it. */
export interface ServerAct {
  readonly server: ServerRef;
  readonly expectedGeneration: string;
  readonly idempotencyKey: string;
  readonly reason: string | null | undefined;
  readonly password: string | null | undefined;
  readonly grant: string | null | undefined;
}

/** The errors that an act on a whole server may end in. */
export const serverErrors = [
  'StaleGenerationError',
  'TmuxServerStuckError',
  'OperationInProgressError',
  'ReauthenticationRequiredError',
  'AuditUnavailableError',
  'ListingUnknownError',
  'IdempotencyConflictError',
  'NotFoundError',
  'UnsupportedError',
  'OutcomeUnknownError',
] as const;
export type ServerActError = Named<(typeof serverErrors)[number]>;

type Options = Readonly<Record<string, string | boolean>>;

/** Whom an act is about, and what of it is on record. */
export function aboutServer(server: ServerRef, generation: string, options: Options) {
  const { memberId, pathHex, generation: ownGeneration } = server;
  const id = encodeId({ type: 'TmuxServer', ref: server });
  return {
    id,
    target: { memberId, id, label: serverLabel(pathHex), generation },
    facts: {
      expectedGeneration: generation,
      ...options,
      pathHex,
      ...(ownGeneration === undefined ? {} : { ownGeneration }),
    },
  };
}

type Shared =
  | 'action'
  | 'idempotencyKey'
  | 'reason'
  | 'target'
  | 'input'
  | 'facts'
  | 'allowed'
  | 'check'
  | 'reauthenticate';

/**
 * What all of them share: whom the act is about, who may do it, and the password again.
 * @param options what else the caller chose; part of the input, and on record
 */
export function onServer(
  context: Context,
  { server, expectedGeneration, idempotencyKey, reason, password, grant }: ServerAct,
  action: 'RESTART_TMUX_SERVER' | 'REPAIR_TMUX_SERVER',
  options: Options,
): Required<Pick<Act<unknown, never>, Shared>> {
  const { memberId } = server;
  const { id, facts, target } = aboutServer(server, expectedGeneration, options);
  return {
    action,
    idempotencyKey,
    reason,
    target,
    input: { id, expectedGeneration, ...options, reason: reason ?? null },
    facts,
    allowed: (viewer) => mayActOnServer(viewer, memberId),
    check: () => checkGeneration('input.expectedGeneration', expectedGeneration),
    reauthenticate: () =>
      context.reauthentication.require(context.viewer, { password, grant }, context.address, {
        action,
        targets: [{ id, generation: expectedGeneration }],
        memberId: null,
      }),
  };
}

/** @throws RequestError (BAD_USER_INPUT) */
export function checkGeneration(argument: string, generation: string): void {
  if (!/^[0-9a-f-]{36}:\d{1,10}:\d{1,19}$/.test(generation))
    throw badInput(argument, 'is no generation. Take it from `TmuxServer.generation`.');
}
