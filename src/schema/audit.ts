import type { AuditAction as Action, AuditOutcome as Outcome } from '../audit/record.ts';
import { memberOfEvent } from '../resolvers/audit-event.ts';
import {
  type AuditEventAddedValue,
  auditEventAdded,
  auditEvents,
} from '../resolvers/audit-events.ts';
import { type AuditEventNode, findNode } from '../resolvers/find.ts';
import { encodeId } from '../resolvers/id.ts';
import type { Page } from '../resolvers/page.ts';
import { badInput } from '../resolvers/request-error.ts';
import type { ServerState, Survivor as SurvivorValue } from '../tmux/acts.ts';
import { serverStatuses } from '../tmux/model.ts';
import { builder } from './builder.ts';
import { TmuxServerStatus } from './enums.ts';
import { ErrorCode, OutcomeUnknownError } from './errors.ts';
import { idArgument } from './global-ids.ts';
import { pageFields } from './page.ts';
import { Member, Node } from './refs.ts';

export const AuditPhase = builder.enumType('AuditPhase', {
  description: 'The two rows of an act. A refusal has an OUTCOME alone.',
  values: {
    INTENT: { description: 'On record before the act, or the act does not happen.' },
    OUTCOME: { description: 'What came of it.' },
  } as const,
});

const outcomes: Record<Outcome, { description: string }> = {
  SUCCEEDED: { description: 'Done, and seen to be done.' },
  FAILED: { description: 'Not done, or done in part only; `code` and `message` say more.' },
  DENIED: { description: 'Refused for want of authority, or for a wrong password.' },
  SKIPPED: { description: 'Left out of an act on many, for a reason that `message` names.' },
  UNKNOWN: { description: 'Begun, and what came of it is not known. It is never repeated by us.' },
};
export const AuditOutcome = builder.enumType('AuditOutcome', {
  description: 'How an act ended.',
  values: outcomes,
});

const actions: Record<Action, { description: string }> = {
  RESTART_TMUX_SERVER: { description: 'A tmux server was ended and started again.' },
  RESTART_PANE: { description: 'The program of a pane was ended and started again.' },
  REPAIR_TMUX_SERVER: { description: 'A tmux server was repaired without ending it.' },
  SIGN_IN: { description: 'Somebody signed in, or tried to.' },
  SIGN_OUT: { description: 'Somebody signed out.' },
  REAUTHENTICATE: { description: 'Somebody gave the password again, or a wrong one.' },
  CREATE_API_KEY: { description: 'An API key was made.' },
  REVOKE_API_KEY: { description: 'An API key was revoked.' },
  CREATE_MEMBER: { description: 'A member was added.' },
  UPDATE_MEMBER: { description: 'A member was changed.' },
  DELETE_MEMBER: { description: 'A member was removed.' },
  PROVISION_MEMBER: { description: 'An account was set up on the machine.' },
  RESTART_SERVICE: { description: 'This service was restarted.' },
  EXPORT_AUDIT_LOG: { description: 'The audit log was written out by a command.' },
};
export const AuditAction = builder.enumType('AuditAction', {
  description: 'What was done, or tried.',
  values: actions,
});

type RecordedState = Omit<ServerState, 'status'> & { readonly status: string };
const TmuxServerState = builder.objectRef<RecordedState>('TmuxServerState').implement({
  description: 'A tmux server as it was seen before or after an act.',
  fields: (t) => ({
    generation: t.exposeString('generation', {
      nullable: true,
      description: 'That life of it; null: none, or not known.',
    }),
    pid: t.exposeInt('pid', { nullable: true, description: 'Its process id.' }),
    version: t.exposeString('version', { nullable: true, description: 'Its tmux version.' }),
    status: t.field({
      type: TmuxServerStatus,
      description: 'What it was doing.',
      resolve: ({ status }) => serverStatuses.find((each) => each === status) ?? 'UNKNOWN',
    }),
    sessionCount: t.exposeInt('sessionCount', {
      nullable: true,
      description: 'How many sessions it had; null: not known.',
    }),
  }),
});

export const Survivor = builder.objectRef<SurvivorValue>('Survivor').implement({
  description: 'A process that ran in a pane and outlived the act.',
  fields: (t) => ({
    pid: t.exposeInt('pid', { description: 'Its process id.' }),
    command: t.exposeString('command', {
      description: 'Name of its program. Untrusted text of the member.',
    }),
  }),
});

export const AuditEvent = builder.objectRef<AuditEventNode>('AuditEvent').implement({
  description:
    'A row of the audit log: an intent before an act, or an outcome. Rows are never changed. An ADMIN sees all, others those where they are actor or target.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.id({
      description: 'Opaque.',
      resolve: ({ id }) => encodeId({ type: 'AuditEvent', id }),
    }),
    chain: t.exposeString('chain', {
      description: 'Which instance of this service wrote it; each has one chain of rows.',
    }),
    sequence: t.exposeInt('sequence', {
      description: 'Its number in the chain, from 1 without gaps.',
    }),
    at: t.expose('at', { type: 'DateTime', description: 'When it was written.' }),
    phase: t.expose('phase', { type: AuditPhase, description: 'Before the act, or after it.' }),
    outcome: t.expose('outcome', {
      type: AuditOutcome,
      nullable: true,
      description: 'How the act ended; null exactly for an intent.',
    }),
    action: t.expose('action', { type: AuditAction, description: 'What was done, or tried.' }),
    actor: t.field({
      type: Member,
      nullable: true,
      description: 'Who did it; null: nobody who was signed in, or a member deleted since.',
      resolve: ({ actorId }, _, context) => memberOfEvent(context, actorId),
    }),
    actorKeyId: t.id({
      nullable: true,
      description: 'The API key that was used; null: another credential.',
      resolve: ({ actorKeyId: id }) => id && encodeId({ type: 'ApiKey', id }),
    }),
    actorAddress: t.exposeString('actorAddress', {
      nullable: true,
      description: 'The address that the request came from.',
    }),
    actorAgent: t.exposeString('actorAgent', {
      nullable: true,
      description: "The caller's User-Agent, cut and escaped. It says what it likes.",
    }),
    member: t.field({
      type: Member,
      nullable: true,
      description: 'Whose tmux or account it was about; null: nobody, or a member deleted since.',
      resolve: ({ memberId }, _, context) => memberOfEvent(context, memberId),
    }),
    targetId: t.id({
      nullable: true,
      description: 'The id of what it was about, for `node`.',
      resolve: ({ targetId }) => targetId,
    }),
    targetLabel: t.exposeString('targetLabel', {
      nullable: true,
      description: 'The same as people call it, escaped.',
    }),
    code: t.expose('code', {
      type: ErrorCode,
      nullable: true,
      description: 'What went wrong, for programs.',
    }),
    statedReason: t.exposeString('statedReason', {
      nullable: true,
      description: 'The `reason` that the caller gave, escaped.',
    }),
    message: t.exposeString('message', {
      nullable: true,
      description: 'What came of it, for people.',
    }),
    operationId: t.exposeID('operationId', {
      description: 'The same for all rows of one call.',
    }),
    requestId: t.exposeString('requestId', {
      description: 'The request, as in `extensions.requestId` and in the log of the service.',
    }),
    intentId: t.id({
      nullable: true,
      description: 'The intent that this is the outcome of; null for an intent and for a refusal.',
      resolve: ({ intentId: id }) => id && encodeId({ type: 'AuditEvent', id }),
    }),
    before: t.expose('before', {
      type: TmuxServerState,
      nullable: true,
      description: 'The tmux server before the act.',
    }),
    after: t.expose('after', {
      type: TmuxServerState,
      nullable: true,
      description: 'The tmux server after the act.',
    }),
    survivors: t.expose('survivors', {
      type: [Survivor],
      nullable: true,
      description: 'Processes that outlived the act; null where that was not looked at.',
    }),
    hash: t.exposeString('hash', {
      description: 'HMAC-SHA256 of the row and of the hash before it, as hex.',
    }),
  }),
});

builder.objectField(OutcomeUnknownError, 'auditEvent', (t) =>
  t.field({
    type: AuditEvent,
    nullable: true,
    description: 'The outcome on record; null where it could not be written (yet).',
    resolve: async ({ auditEventId: id }, _, context) => {
      const node =
        id === null ? null : await findNode(context, encodeId({ type: 'AuditEvent', id }));
      return node?.__typename === 'AuditEvent' ? node : null;
    },
  }),
);

const AuditEventConnection = builder
  .objectRef<Page<AuditEventNode>>('AuditEventConnection')
  .implement({
    description: 'A page of the audit log, newest first.',
    fields: (t) => pageFields('AuditEvent', AuditEvent, t),
  });

const AuditEventFilter = builder.inputType('AuditEventFilter', {
  description: 'Which rows; everything that is given must hold.',
  fields: (t) => ({
    actorId: t.id({ description: 'Acts of this member.' }),
    memberId: t.id({ description: "Acts on this member's tmux or account." }),
    action: t.field({ type: [AuditAction], description: 'One of these acts.' }),
    phase: t.field({ type: AuditPhase, description: 'Intents alone, or outcomes alone.' }),
    outcome: t.field({
      type: [AuditOutcome],
      description: 'Acts that ended in one of these ways.',
    }),
    operationId: t.id({ description: 'The rows of one call.' }),
    from: t.field({ type: 'DateTime', description: 'Not before this moment.' }),
    to: t.field({ type: 'DateTime', description: 'Before this moment.' }),
  }),
});

builder.queryField('auditEvents', (t) =>
  t.field({
    type: AuditEventConnection,
    nullable: true,
    description:
      'The audit log, newest first: for an ADMIN all of it, for others the rows where they are actor or target. Null with FORBIDDEN in `errors` without the right to read.',
    args: {
      first: t.arg.int({ defaultValue: 20, description: 'Size of the page: 1 to 100.' }),
      after: t.arg.string({ description: 'Rows after this cursor: older ones.' }),
      filter: t.arg({ type: AuditEventFilter, description: 'Which rows; null: all.' }),
    },
    resolve: (_, { first, after, filter }, context) =>
      auditEvents(
        context,
        { first, after },
        {
          actorId: memberArgument('filter.actorId', filter?.actorId),
          memberId: memberArgument('filter.memberId', filter?.memberId),
          action: filter?.action ?? undefined,
          phase: filter?.phase ?? undefined,
          outcome: filter?.outcome ?? undefined,
          operationId: operationArgument('filter.operationId', filter?.operationId),
          from: filter?.from ?? undefined,
          to: filter?.to ?? undefined,
        },
      ),
  }),
);

const AuditEventAdded = builder.objectRef<AuditEventAddedValue>('AuditEventAdded').implement({
  description: 'A row that was added.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', {
      description: 'Give it as `after` to go on behind this row. Opaque.',
    }),
    auditEvent: t.expose('auditEvent', { type: AuditEvent, description: 'The row.' }),
  }),
});

builder.subscriptionField('auditEventAdded', (t) =>
  t.field({
    type: AuditEventAdded,
    description:
      'Rows of the audit log that the viewer may see, each exactly once, in the order of each chain. Without `after`: those from now on.',
    args: {
      after: t.arg.string({ description: 'The cursor of the last row that was received.' }),
    },
    subscribe: (_, { after }, context) => auditEventAdded(context, after ?? undefined),
    resolve: (added) => added,
  }),
);

function memberArgument(argument: string, id: string | null | undefined): string | undefined {
  return id == null ? undefined : idArgument('Member', argument, id).id;
}

function operationArgument(argument: string, id: string | null | undefined): string | undefined {
  if (id == null) return undefined;
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id))
    throw badInput(argument, 'is no operation id. Take it from `AuditEvent.operationId`.');
  return id;
}
