import { type RepairTmuxServerPayloadValue, repairTmuxServer } from '../resolvers/repair-server.ts';
import { serverErrors } from '../resolvers/server-act.ts';
import type { Repair as RepairName } from '../tmux/acts.ts';
import { recordFields, repeatDescription, serverActArgument, serverActFields } from './act.ts';
import { builder } from './builder.ts';
import { errorTypes } from './errors.ts';
import { TmuxServer } from './refs.ts';

const names: Record<RepairName, { description: string }> = {
  RAISE_DESCRIPTOR_LIMIT: {
    description:
      'For DESCRIPTORS_EXHAUSTED: raises its soft limit of open files well above those that are open. Beyond its hard limit only root can (EUNSUPPORTED, with the command).',
  },
  RECREATE_SOCKET: {
    description:
      'For SOCKET_LOST: has it make its socket again, while nobody else listens on the path.',
  },
  CONTINUE_STOPPED: {
    description:
      'For STOPPED: lets it run (SIGCONT). What was sent to it while it was stopped takes effect then.',
  },
};
export const Repair = builder.enumType('Repair', {
  description: 'How a tmux server is mended without ending it.',
  values: names,
});

const RepairTmuxServerInput = builder.inputType('RepairTmuxServerInput', {
  description: repeatDescription,
  fields: (t) => ({
    ...serverActFields(t),
    repair: t.field({ type: Repair, required: true, description: 'What to do.' }),
  }),
});

const RepairTmuxServerPayload = builder
  .objectRef<RepairTmuxServerPayloadValue>('RepairTmuxServerPayload')
  .implement({
    description:
      'It was sent, and seen to help: the same process, with its sessions. Where `auditEvent.outcome` is FAILED the server ended meanwhile.',
    fields: (t) => ({
      tmuxServer: t.field({
        type: TmuxServer,
        description: 'The server as it is listed now.',
        resolve: ({ server }) => server,
      }),
      ...recordFields(t),
    }),
  });

const RepairTmuxServerResult = builder.unionType('RepairTmuxServerResult', {
  description: 'What came of it.',
  types: [RepairTmuxServerPayload, ...errorTypes(serverErrors)],
});

builder.mutationField('repairTmuxServer', (t) =>
  t.field({
    type: RepairTmuxServerResult,
    description:
      'Mends a tmux server without ending it: the process, its sessions and all ids stay. Refused (EUNSUPPORTED) where there is nothing to mend. Needs the password again, or a key with RESTART that an ADMIN made.',
    args: {
      input: t.arg({ type: RepairTmuxServerInput, required: true, description: 'What, and how.' }),
    },
    resolve: (_, { input }, context) =>
      repairTmuxServer(context, { ...serverActArgument(input), repair: input.repair }),
  }),
);
