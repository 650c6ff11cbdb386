import {
  type ProvisionMemberPayloadValue,
  provisionErrors,
  provisionMember,
} from '../resolvers/provision-member.ts';
import type { ProvisionAction as ActionName } from '../tmux/acts.ts';
import { keyDescription, reasonDescription, recordFields, repeatDescription } from './act.ts';
import { Survivor } from './audit.ts';
import { builder } from './builder.ts';
import { errorTypes } from './errors.ts';
import { idArgument } from './global-ids.ts';
import { Member } from './refs.ts';

const actions: Record<ActionName, { description: string }> = {
  CREATE: {
    description:
      'Makes the account, with a home (0700), a group of its own and no password, lets the service reach it, and makes it the member’s Linux user.',
  },
  SUSPEND: {
    description:
      'Disables the member, and lets nobody log in as the account. What runs goes on, and an ADMIN still sees it.',
  },
  RESUME: { description: 'Gives back what SUSPEND took.' },
  DELETE: {
    description:
      'Ends the tmux servers of the account, then all else of it, and removes its home and the account. The member stays, without a Linux user.',
  },
};
export const ProvisionAction = builder.enumType('ProvisionAction', {
  description: 'What is done about a member’s Linux account.',
  values: actions,
});

const ProvisionMemberInput = builder.inputType('ProvisionMemberInput', {
  description: repeatDescription,
  fields: (t) => ({
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    memberId: t.id({ required: true, description: 'Whose account.' }),
    action: t.field({ type: ProvisionAction, required: true, description: 'What to do.' }),
    reason: t.string({ description: reasonDescription }),
    password: t.string({
      description: "The caller's own password, unless a grant or a key with ADMIN stands for it.",
    }),
    grant: t.string({
      description:
        'What `reauthenticate` gave for PROVISION_MEMBER, this member and this very action, instead of the password.',
    }),
  }),
});

const ProvisionMemberPayload = builder
  .objectRef<ProvisionMemberPayloadValue>('ProvisionMemberPayload')
  .implement({
    description:
      'It is done, whole. What was so already was left as it is, so the lists may be empty.',
    fields: (t) => ({
      member: t.field({
        type: Member,
        description: 'The member as it is now.',
        resolve: ({ member }) => member,
      }),
      account: t.exposeString('account', { description: 'The name of the Linux account.' }),
      done: t.exposeStringList('done', { description: 'What was made by this call.' }),
      removed: t.exposeStringList('removed', { description: 'What was removed by this call.' }),
      ended: t.expose('ended', {
        type: [Survivor],
        description:
          'Processes of the account that this call ended, tmux servers first; 100 at most.',
      }),
      ...recordFields(t),
    }),
  });

const ProvisionMemberResult = builder.unionType('ProvisionMemberResult', {
  description: 'What came of it.',
  types: [ProvisionMemberPayload, ...errorTypes(provisionErrors)],
});

builder.mutationField('provisionMember', (t) =>
  t.field({
    type: ProvisionMemberResult,
    description:
      'Makes, suspends, gives back or deletes the Linux account of a member, for an ADMIN: in system mode, where root has installed the program for it (EUNSUPPORTED otherwise). No account is touched that was not made here, nor one that has privileges by now. What was cut off half way is gone on with by the same action with another key. Needs the password again, a grant, or a key with ADMIN that an ADMIN made.',
    args: {
      input: t.arg({ type: ProvisionMemberInput, required: true, description: 'Whom, and what.' }),
    },
    resolve: (_, { input }, context) =>
      provisionMember(context, {
        idempotencyKey: input.idempotencyKey,
        memberId: idArgument('Member', 'input.memberId', input.memberId).id,
        action: input.action,
        reason: input.reason ?? null,
        password: input.password,
        grant: input.grant,
      }),
  }),
);
