import { type ReauthenticatePayloadValue, reauthenticate } from '../resolvers/reauthenticate.ts';
import { type SignInPayloadValue, signIn, signInErrors, signOut } from '../resolvers/sign-in.ts';
import { AuditAction } from './audit.ts';
import { builder } from './builder.ts';
import { errorTypes } from './errors.ts';
import { idArgument } from './global-ids.ts';
import { ProvisionAction } from './provision.ts';
import { Viewer } from './viewer.ts';

const SignInInput = builder.inputType('SignInInput', {
  description: 'Who signs in.',
  fields: (t) => ({
    login: t.string({ required: true, description: 'The name of the account.' }),
    password: t.string({ required: true, description: 'Its password.' }),
  }),
});

const SignInPayload = builder.objectRef<SignInPayloadValue>('SignInPayload').implement({
  description: 'Signed in: the answer sets the cookie of a new session.',
  fields: (t) => ({
    viewer: t.field({
      type: Viewer,
      description: 'Who is signed in now, and until when.',
      resolve: ({ viewer }) => viewer,
    }),
  }),
});

const SignInResult = builder.unionType('SignInResult', {
  description:
    'What came of it. A wrong password, an unknown login, a disabled account and one without a password are one answer.',
  types: [SignInPayload, ...errorTypes(signInErrors)],
});

export const TmuxServerTarget = builder.inputType('TmuxServerTarget', {
  description: 'A tmux server in the life that was seen.',
  fields: (t) => ({
    tmuxServerId: t.id({ required: true, description: 'Which tmux server.' }),
    expectedGeneration: t.string({ required: true, description: 'The `generation` that you saw.' }),
  }),
});

const ReauthenticateInput = builder.inputType('ReauthenticateInput', {
  description: 'The password again, and the one act that it is given for.',
  fields: (t) => ({
    password: t.string({ required: true, description: "The caller's own password." }),
    action: t.field({
      type: AuditAction,
      required: true,
      description:
        'RESTART_TMUX_SERVER, REPAIR_TMUX_SERVER, CREATE_API_KEY, CREATE_MEMBER, UPDATE_MEMBER, DELETE_MEMBER, PROVISION_MEMBER or RESTART_SERVICE.',
    }),
    targets: t.field({
      type: [TmuxServerTarget],
      description:
        'For an act on tmux servers: exactly those, 100 at most; for an act on many the whole list, as a dry run named it.',
    }),
    memberId: t.id({
      description:
        'For CREATE_API_KEY whose key it will be; for UPDATE_MEMBER, DELETE_MEMBER and PROVISION_MEMBER which member.',
    }),
    provisionAction: t.field({
      type: ProvisionAction,
      description:
        'For PROVISION_MEMBER, and needed there: what will be done about the account. The grant is for that alone.',
    }),
  }),
});

const ReauthenticatePayload = builder
  .objectRef<ReauthenticatePayloadValue>('ReauthenticatePayload')
  .implement({
    description: 'The password was right.',
    fields: (t) => ({
      grant: t.exposeString('grant', {
        description:
          'Give it as `grant` in the input of that act, by the same session or key, instead of the password. It works once: the intent of the act uses it up, a refusal before the intent does not.',
      }),
      expiresAt: t.expose('expiresAt', {
        type: 'DateTime',
        description: 'When it ends: 60 seconds after it was given.',
      }),
    }),
  });

const ReauthenticateResult = builder.unionType('ReauthenticateResult', {
  description: 'What came of it.',
  types: [ReauthenticatePayload, ...errorTypes(signInErrors)],
});

builder.mutationFields((t) => ({
  signIn: t.field({
    type: SignInResult,
    description:
      "Begins a session by login and password: the answer to the POST sets its cookie, so this is not for WebSockets, and it needs the CSRF header and an Origin as every request with a cookie. No credential is needed, then as a request's only field. Five wrong passwords for one login from one place end the tries there for 15 minutes.",
    args: {
      input: t.arg({ type: SignInInput, required: true, description: 'Who.' }),
    },
    resolve: (_, { input }, context) => signIn(context, input),
  }),
  signOut: t.boolean({
    description:
      'Ends every session of the account at once, with the streams that are open by them, and what is left of its sign-in links and grants. False for an API key, which is revoked instead.',
    resolve: (_, _args, context) => signOut(context),
  }),
  reauthenticate: t.field({
    type: ReauthenticateResult,
    description:
      'Gives the password once more, for one act that needs it, and gets a grant for that act alone: for this caller, this action and exactly these targets. Five wrong passwords end the tries of the account for 15 minutes, here and in the inputs of acts together.',
    args: {
      input: t.arg({ type: ReauthenticateInput, required: true, description: 'For what.' }),
    },
    resolve: (_, { input }, context) =>
      reauthenticate(context, {
        password: input.password,
        action: input.action,
        targets: (input.targets ?? []).map(({ tmuxServerId, expectedGeneration }, index) => ({
          server: idArgument('TmuxServer', `input.targets[${index}].tmuxServerId`, tmuxServerId)
            .ref,
          expectedGeneration,
        })),
        memberId:
          input.memberId == null ? null : idArgument('Member', 'input.memberId', input.memberId).id,
        provision: input.provisionAction ?? null,
      }),
  }),
}));
