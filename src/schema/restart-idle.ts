import type {
  RestartIdleResultValue,
  RestartIdleTmuxServersPayloadValue,
} from '../resolvers/idle-result.ts';
import type { Verdict } from '../resolvers/idle-verdict.ts';
import { restartIdleErrors, restartIdleTmuxServers } from '../resolvers/restart-idle.ts';
import { keyDescription, reasonDescription, recordFields } from './act.ts';
import { Survivor } from './audit.ts';
import { builder } from './builder.ts';
import { errorTypes, UserError } from './errors.ts';
import { idArgument } from './global-ids.ts';
import { Member, TmuxServer } from './refs.ts';
import { NotRestored, RestoreMode } from './restart.ts';
import { TmuxServerTarget } from './sign-in.ts';

const outcomes: Record<Verdict['outcome'], { description: string }> = {
  RESTARTED: { description: 'Restarted; in a dry run: it would be.' },
  SKIPPED_BUSY: { description: 'It is in use, or another operation on it is under way.' },
  SKIPPED_CURRENT: { description: 'It runs the installed version already, or a newer one.' },
  SKIPPED_UNKNOWN: { description: 'Something about it is not known, so it was left alone.' },
  SKIPPED_CHANGED: { description: 'Another life of it runs by now, or none: not what was meant.' },
  STUCK: { description: 'It was told to end and did not. The pid is for root.' },
  FAILED: { description: 'Not done, or not wholly; `error` or `evidence` says why.' },
  OUTCOME_UNKNOWN: { description: 'Begun, and what came of it could not be seen.' },
};
const RestartIdleOutcome = builder.enumType('RestartIdleOutcome', {
  description: 'What became of one server, or in a dry run what would.',
  values: outcomes,
});

const RestartIdleTmuxServersInput = builder.inputType('RestartIdleTmuxServersInput', {
  description:
    'Without targets: every visible server that is outdated and proved idle. With targets (as a dry run named them): those only, each by its generation, and each only if it is outdated and idle. The same idempotencyKey and input (password left out) gives the first answer again; a dry run is asked anew each time and uses no key up.',
  fields: (t) => ({
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    dryRun: t.boolean({
      defaultValue: false,
      description:
        'Only tells what would become of each server. Changes nothing, needs no password, and leaves no audit row.',
    }),
    targets: t.field({
      type: [TmuxServerTarget],
      description: 'Only these, 100 at most. One that you may not act on refuses the whole.',
    }),
    reason: t.string({ description: reasonDescription }),
    password: t.string({
      description: "The caller's own password, unless a grant or a key with RESTART stands for it.",
    }),
    grant: t.string({
      description:
        'What `reauthenticate` gave for a restart of exactly these targets, instead of the password. Used up by the first intent.',
    }),
    restore: t.field({
      type: RestoreMode,
      defaultValue: 'LAYOUT',
      description: 'What is made again in each new server.',
    }),
  }),
});

const RestartIdleResult = builder.objectRef<RestartIdleResultValue>('RestartIdleResult').implement({
  description: 'What became of one server.',
  fields: (t) => ({
    tmuxServer: t.field({
      type: TmuxServer,
      description: 'The server as it is listed now.',
      resolve: ({ server }) => server,
    }),
    generation: t.exposeString('generation', {
      nullable: true,
      description: 'The life of it that this is about; null: not known.',
    }),
    outcome: t.expose('outcome', { type: RestartIdleOutcome, description: 'What became of it.' }),
    evidence: t.exposeStringList('evidence', {
      description: 'What that rests on, in sentences.',
    }),
    wouldEnd: t.field({
      type: [Survivor],
      description:
        'Processes that lived in its panes right before, and end with it unless they take care not to; of a server that is skipped none.',
      resolve: ({ wouldEnd }) => wouldEnd,
    }),
    survivors: t.expose('survivors', {
      type: [Survivor],
      description: 'Those of them that outlived it.',
    }),
    notRestored: t.expose('notRestored', {
      type: [NotRestored],
      description: 'What could not be made again.',
    }),
    error: t.expose('error', {
      type: UserError,
      nullable: true,
      description: 'Why it was not restarted, where that is an error of its own.',
    }),
    ...recordFields(t),
  }),
});

const RestartIdleTmuxServersPayload = builder
  .objectRef<RestartIdleTmuxServersPayloadValue>('RestartIdleTmuxServersPayload')
  .implement({
    description: 'What became of each server.',
    fields: (t) => ({
      operationId: t.exposeID('operationId', {
        description: 'What all rows of it in the audit log share. A dry run leaves none.',
      }),
      dryRun: t.exposeBoolean('dryRun', { description: 'Nothing was done.' }),
      results: t.expose('results', {
        type: [RestartIdleResult],
        description: 'One for each server, by login and path, or in the order of the targets.',
      }),
      complete: t.exposeBoolean('complete', {
        description:
          'False: there may be servers that are not among the results, of `unknownMembers`, or because the service ended within the operation.',
      }),
      unknownMembers: t.expose('unknownMembers', {
        type: [Member],
        description: 'Members whose servers could not be looked at. Nothing of theirs was touched.',
      }),
    }),
  });

const RestartIdleTmuxServersResult = builder.unionType('RestartIdleTmuxServersResult', {
  description: 'What came of it.',
  types: [RestartIdleTmuxServersPayload, ...errorTypes(restartIdleErrors)],
});

builder.mutationField('restartIdleTmuxServers', (t) =>
  t.field({
    type: RestartIdleTmuxServersResult,
    description:
      'Restarts every outdated tmux server that is proved idle, looked at again right before; what happens to one stops no other, and a caller who hangs up stops nothing. Needs the password again, or a key with RESTART that an ADMIN made.',
    args: {
      input: t.arg({
        type: RestartIdleTmuxServersInput,
        required: true,
        description: 'Which, and how.',
      }),
    },
    resolve: (_, { input }, context) =>
      restartIdleTmuxServers(context, {
        idempotencyKey: input.idempotencyKey,
        dryRun: input.dryRun ?? false,
        targets: input.targets?.map(({ tmuxServerId, expectedGeneration }, index) => ({
          server: idArgument('TmuxServer', `input.targets[${index}].tmuxServerId`, tmuxServerId)
            .ref,
          expectedGeneration,
        })),
        reason: input.reason,
        password: input.password,
        grant: input.grant,
        restore: input.restore ?? 'LAYOUT',
      }),
  }),
);
