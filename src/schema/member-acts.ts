import {
  createMember,
  deleteMember,
  type MemberPayloadValue,
  memberErrors,
  updateMember,
} from '../resolvers/member-acts.ts';
import { badInput } from '../resolvers/request-error.ts';
import { keyDescription, reasonDescription, repeatDescription } from './act.ts';
import { AuditEvent } from './audit.ts';
import { builder } from './builder.ts';
import { errorTypes } from './errors.ts';
import { idArgument } from './global-ids.ts';
import { Role } from './member.ts';
import { Member } from './refs.ts';

const passwordDescription =
  "The caller's own password, unless a grant or a key with ADMIN stands for it.";

const CreateMemberInput = builder.inputType('CreateMemberInput', {
  description: repeatDescription,
  fields: (t) => ({
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    login: t.string({
      required: true,
      description:
        'The name to sign in with: 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or _.',
    }),
    role: t.field({ type: Role, required: true, description: 'What the member may do.' }),
    osUser: t.string({
      description:
        'The Linux user whose tmux servers it owns, no other member’s; null: it has none.',
    }),
    initialPassword: t.string({
      description:
        'Its password, 8 characters at least; null: it signs in by links of `muxwarden login`, or uses keys.',
    }),
    password: t.string({ description: passwordDescription }),
    grant: t.string({
      description: 'What `reauthenticate` gave for CREATE_MEMBER, instead of the password.',
    }),
  }),
});

const UpdateMemberInput = builder.inputType('UpdateMemberInput', {
  description: `What is left out stays as it is. ${repeatDescription}`,
  fields: (t) => ({
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    memberId: t.id({ required: true, description: 'Which member.' }),
    role: t.field({
      type: Role,
      description:
        'What the member may do from now on. It is signed out; its keys go on within the new role.',
    }),
    disabled: t.boolean({
      description:
        'True: it is signed out and can’t sign in, and its keys don’t work until it is false again.',
    }),
    osUser: t.string({
      description: 'The Linux user whose tmux servers it owns; null given as such: none any more.',
    }),
    password: t.string({ description: passwordDescription }),
    grant: t.string({
      description:
        'What `reauthenticate` gave for UPDATE_MEMBER and this member, instead of the password.',
    }),
  }),
});

const DeleteMemberInput = builder.inputType('DeleteMemberInput', {
  description: repeatDescription,
  fields: (t) => ({
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    memberId: t.id({ required: true, description: 'Which member.' }),
    reason: t.string({ description: reasonDescription }),
    password: t.string({ description: passwordDescription }),
    grant: t.string({
      description:
        'What `reauthenticate` gave for DELETE_MEMBER and this member, instead of the password.',
    }),
  }),
});

const MemberPayload = builder.objectRef<MemberPayloadValue>('MemberPayload').implement({
  description: 'It was done.',
  fields: (t) => ({
    member: t.field({
      type: Member,
      description: 'The member as it is now; a deleted one as it was.',
      resolve: ({ member }) => member,
    }),
    auditEvent: t.expose('auditEvent', {
      type: AuditEvent,
      nullable: true,
      description: 'The outcome on record; null where it could not be written (yet).',
    }),
  }),
});

const MemberResult = builder.unionType('MemberResult', {
  description: 'What came of it.',
  types: [MemberPayload, ...errorTypes(memberErrors)],
});

builder.mutationFields((t) => ({
  createMember: t.field({
    type: MemberResult,
    description:
      'Adds a member, for an ADMIN. Needs the password again, a grant, or a key with ADMIN that an ADMIN made.',
    args: {
      input: t.arg({ type: CreateMemberInput, required: true, description: 'Who.' }),
    },
    resolve: (_, { input }, context) =>
      createMember(context, {
        idempotencyKey: input.idempotencyKey,
        login: input.login,
        role: input.role,
        osUser: input.osUser ?? null,
        initialPassword: input.initialPassword ?? null,
        password: input.password,
        grant: input.grant,
      }),
  }),
  updateMember: t.field({
    type: MemberResult,
    description:
      'Changes role, entry or Linux user of a member, for an ADMIN; the own role and entry are another ADMIN’s to take. What the member may no longer do ends within a second. Needs the password again, a grant, or a key with ADMIN that an ADMIN made.',
    args: {
      input: t.arg({ type: UpdateMemberInput, required: true, description: 'Whom, and how.' }),
    },
    resolve: (_, { input }, context) => {
      if (input.role === null) throw badInput('input.role', 'can’t be null. Leave it out.');
      if (input.disabled === null) throw badInput('input.disabled', 'can’t be null. Leave it out.');
      return updateMember(context, {
        idempotencyKey: input.idempotencyKey,
        memberId: idArgument('Member', 'input.memberId', input.memberId).id,
        change: { role: input.role, disabled: input.disabled, osUser: input.osUser },
        password: input.password,
        grant: input.grant,
      });
    },
  }),
  deleteMember: t.field({
    type: MemberResult,
    description:
      'Removes a member, for an ADMIN, never the own account: it is signed out and its keys are revoked for good. Its tmux servers run on, and the record goes on naming it. Needs the password again, a grant, or a key with ADMIN that an ADMIN made.',
    args: {
      input: t.arg({ type: DeleteMemberInput, required: true, description: 'Whom.' }),
    },
    resolve: (_, { input }, context) =>
      deleteMember(context, {
        idempotencyKey: input.idempotencyKey,
        memberId: idArgument('Member', 'input.memberId', input.memberId).id,
        reason: input.reason ?? null,
        password: input.password,
        grant: input.grant,
      }),
  }),
}));
