import { randomUUID } from 'node:crypto';
import type { AuditAction } from '../audit/record.ts';
import { type Grant, needsReauthentication, type ProvenAct } from '../auth/reauthentication.ts';
import type { ProvisionAction } from '../tmux/acts.ts';
import type { ServerRef } from '../tmux/model.ts';
import { entryOf, refused } from './act-record.ts';
import type { Context } from './context.ts';
import { encodeId } from './id.ts';
import { badInput } from './request-error.ts';
import { checkGeneration } from './server-act.ts';
import { accountTarget, type SignInError, signInErrors } from './sign-in.ts';
import { orUserError } from './user-error.ts';

export interface Reauthenticate {
  readonly password: string;
  readonly action: AuditAction;
  readonly targets: readonly { readonly server: ServerRef; readonly expectedGeneration: string }[];
  readonly memberId: string | null;
  readonly provision: ProvisionAction | null;
}

export type ReauthenticatePayloadValue = Grant & { readonly __typename: 'ReauthenticatePayload' };

const mostTargets = 100;

/**
 * A grant for one act, by the caller's own password. One row: who gets a grant is on record before
 * it is given, a miss before it is answered.
 */
export function reauthenticate(
  context: Context,
  input: Reauthenticate,
): Promise<ReauthenticatePayloadValue | SignInError> {
  const act = provenAct(input);
  const { viewer, address, reauthentication } = context;
  const { id, login } = viewer.member;
  const entry = {
    ...entryOf(
      context,
      {
        action: 'REAUTHENTICATE',
        target: { ...accountTarget(id), label: login, generation: null },
      },
      randomUUID(),
    ),
    facts: {
      ...{ action: act.action, targets: act.targets.length, about: act.memberId },
      ...(act.provision === undefined ? {} : { provision: act.provision }),
    },
  };
  return orUserError(signInErrors, async () => {
    let grant: Grant;
    try {
      grant = await reauthentication.grant(viewer, input.password, address, act);
    } catch (error) {
      throw await refused(context, entry, error);
    }
    try {
      await context.audit.append({ ...entry, outcome: 'SUCCEEDED' });
    } catch (error) {
      await reauthentication.withdraw(grant);
      throw error;
    }
    return { ...grant, __typename: 'ReauthenticatePayload' };
  });
}

/** @throws RequestError (BAD_USER_INPUT) for what no act could be */
function provenAct({ action, targets, memberId, provision }: Reauthenticate): ProvenAct {
  if (!needsReauthentication(action))
    throw badInput('input.action', 'needs no password again. Leave out the grant.');
  const onServers = action === 'RESTART_TMUX_SERVER' || action === 'REPAIR_TMUX_SERVER';
  if (onServers !== targets.length > 0)
    throw badInput(
      'input.targets',
      onServers ? 'names the tmux servers that the grant is for.' : `is not for ${action}.`,
    );
  if (targets.length > mostTargets)
    throw badInput('input.targets', `names ${mostTargets} tmux servers at most.`);
  const named = targets.map(({ server, expectedGeneration: generation }, index) => {
    checkGeneration(`input.targets[${index}].expectedGeneration`, generation);
    return { id: encodeId({ type: 'TmuxServer', ref: server }), generation };
  });
  if (new Set(named.map(({ id }) => id)).size < named.length)
    throw badInput('input.targets', 'names a tmux server twice.');
  const onMember = !onServers && action !== 'CREATE_MEMBER' && action !== 'RESTART_SERVICE';
  if (onMember !== (memberId !== null))
    throw badInput(
      'input.memberId',
      onMember ? `says whose account ${action} is about.` : `is not for ${action}.`,
    );
  const onAccount = action === 'PROVISION_MEMBER';
  if (onAccount !== (provision !== null))
    throw badInput(
      'input.provisionAction',
      onAccount ? 'says what will be done about the account.' : `is not for ${action}.`,
    );
  return { action, targets: named, memberId, ...(provision === null ? {} : { provision }) };
}
