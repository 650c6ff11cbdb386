import { findPane } from '../resolvers/find.ts';
import {
  paneErrors,
  type RestartPanePayloadValue,
  restartPane,
} from '../resolvers/restart-pane.ts';
import {
  type RestartTmuxServerPayloadValue,
  restartServerErrors,
  restartTmuxServer,
} from '../resolvers/restart-server.ts';
import type { NotRestored as NotRestoredValue } from '../tmux/acts.ts';
import {
  keyDescription,
  reasonDescription,
  recordFields,
  repeatDescription,
  serverActArgument,
  serverActFields,
} from './act.ts';
import { Survivor } from './audit.ts';
import { builder } from './builder.ts';
import { errorTypes } from './errors.ts';
import { idArgument } from './global-ids.ts';
import { TmuxPane, TmuxServer } from './refs.ts';

export const RestoreMode = builder.enumType('RestoreMode', {
  description: 'What is made again in the new tmux server.',
  values: {
    NONE: { description: 'One new session.' },
    LAYOUT: {
      description:
        'Sessions, windows, panes with their sizes, titles and directories, options and the global environment. The programs are new shells.',
    },
  } as const,
});

const PaneCommandInput = builder.inputType('PaneCommandInput', {
  description: 'What to start in a pane instead of its shell.',
  fields: (t) => ({
    paneId: t.id({ required: true, description: 'A pane of the server as it is before.' }),
    command: t.stringList({
      required: true,
      description:
        'Program and arguments, run as they are, without a shell. The audit log has their length and a keyed digest only.',
    }),
  }),
});

const RestartTmuxServerInput = builder.inputType('RestartTmuxServerInput', {
  description: repeatDescription,
  fields: (t) => ({
    ...serverActFields(t),
    onlyIfIdle: t.boolean({
      defaultValue: false,
      description:
        'Only if it is proved idle, looked at again as the last thing before it is ended; else EBUSY, and nothing happens.',
    }),
    continueStopped: t.boolean({
      defaultValue: false,
      description:
        'A stopped (SIGSTOP) server: let it run first. Without this or `force` nothing is sent to it and the answer is ETMUXSTUCK.',
    }),
    force: t.boolean({
      defaultValue: false,
      description: 'SIGKILL where kill-server and SIGTERM did not end it.',
    }),
    restore: t.field({
      type: RestoreMode,
      defaultValue: 'LAYOUT',
      description: 'What is made again in the new server.',
    }),
    restoreCommands: t.field({
      type: [PaneCommandInput],
      description: 'Programs to start in restored panes; the others get a shell.',
    }),
  }),
});

export const NotRestored = builder.objectRef<NotRestoredValue>('NotRestored').implement({
  description: 'Something that the new server does not have as the old one had it.',
  fields: (t) => ({
    what: t.exposeString('what', { description: 'What it is.' }),
    detail: t.exposeString('detail', { description: 'Why it was not made again.' }),
  }),
});

const RestartTmuxServerPayload = builder
  .objectRef<RestartTmuxServerPayloadValue>('RestartTmuxServerPayload')
  .implement({
    description:
      'The old server ended. With `tmuxServer.status` ABSENT no new one could be started, and `notRestored` has everything that was there.',
    fields: (t) => ({
      tmuxServer: t.field({
        type: TmuxServer,
        description: 'The server as it is listed now, in its new life.',
        resolve: ({ server }) => server,
      }),
      ...recordFields(t),
      survivors: t.expose('survivors', {
        type: [Survivor],
        description: 'Processes of its panes that outlived it.',
      }),
      notRestored: t.expose('notRestored', {
        type: [NotRestored],
        description: 'What could not be made again.',
      }),
    }),
  });

const RestartTmuxServerResult = builder.unionType('RestartTmuxServerResult', {
  description: 'What came of it.',
  types: [RestartTmuxServerPayload, ...errorTypes(restartServerErrors)],
});

const RestartPaneInput = builder.inputType('RestartPaneInput', {
  description:
    'The same idempotencyKey and input gives the first answer again, also while it is still running and after UNKNOWN; with another input EIDEMPOTENCY.',
  fields: (t) => ({
    paneId: t.id({
      required: true,
      description: 'Which pane; its id names the life of the server, so it can be no other one.',
    }),
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    reason: t.string({ description: reasonDescription }),
  }),
});

const RestartPanePayload = builder
  .objectRef<RestartPanePayloadValue>('RestartPanePayload')
  .implement({
    description: "The pane's program was ended and started again.",
    fields: (t) => ({
      pane: t.field({
        type: TmuxPane,
        nullable: true,
        description:
          'The pane; null when it is gone by the time of the answer (also of a repeated one).',
        resolve: ({ pane }, _, context) => pane && findPane(context, pane),
      }),
      ...recordFields(t),
      survivors: t.expose('survivors', {
        type: [Survivor],
        description: 'Processes of the pane that outlived it.',
      }),
    }),
  });

const RestartPaneResult = builder.unionType('RestartPaneResult', {
  description: 'What came of it.',
  types: [RestartPanePayload, ...errorTypes(paneErrors)],
});

builder.mutationFields((t) => ({
  restartTmuxServer: t.field({
    type: RestartTmuxServerResult,
    description:
      'Ends a tmux server and starts it again with the installed tmux. Every program in its panes ends. Needs the password again, a grant, or a key with RESTART that an ADMIN made.',
    args: {
      input: t.arg({ type: RestartTmuxServerInput, required: true, description: 'What, and how.' }),
    },
    resolve: (_, { input }, context) =>
      restartTmuxServer(context, {
        ...serverActArgument(input),
        onlyIfIdle: input.onlyIfIdle ?? false,
        continueStopped: input.continueStopped ?? false,
        force: input.force ?? false,
        restore: input.restore ?? 'LAYOUT',
        restoreCommands: (input.restoreCommands ?? []).map(({ paneId, command }, index) => ({
          pane: idArgument('TmuxPane', `input.restoreCommands[${index}].paneId`, paneId).ref,
          command,
        })),
      }),
  }),
  restartPane: t.field({
    type: RestartPaneResult,
    description:
      'Ends what runs in a pane and starts its command again, in the same pane with the same id.',
    args: {
      input: t.arg({ type: RestartPaneInput, required: true, description: 'What.' }),
    },
    resolve: (_, { input }, context) =>
      restartPane(context, {
        pane: idArgument('TmuxPane', 'input.paneId', input.paneId).ref,
        idempotencyKey: input.idempotencyKey,
        reason: input.reason,
      }),
  }),
}));
