import {
  type RestartServicePayloadValue,
  restartService,
  restartServiceErrors,
} from '../resolvers/restart-service.ts';
import { keyDescription, reasonDescription, recordFields, repeatDescription } from './act.ts';
import { builder } from './builder.ts';
import { errorTypes } from './errors.ts';

const RestartServiceInput = builder.inputType('RestartServiceInput', {
  description: repeatDescription,
  fields: (t) => ({
    idempotencyKey: t.string({ required: true, description: keyDescription }),
    reason: t.string({ description: reasonDescription }),
    password: t.string({
      description: "The caller's own password, unless a grant or a key with ADMIN stands for it.",
    }),
    grant: t.string({
      description: 'What `reauthenticate` gave for RESTART_SERVICE, instead of the password.',
    }),
  }),
});

const RestartServicePayload = builder
  .objectRef<RestartServicePayloadValue>('RestartServicePayload')
  .implement({
    description: 'This service is on its way to stop, and its service manager starts it again.',
    fields: (t) => ({
      unit: t.exposeString('unit', { description: 'The unit that is restarted.' }),
      ...recordFields(t),
    }),
  });

const RestartServiceResult = builder.unionType('RestartServiceResult', {
  description: 'What came of it.',
  types: [RestartServicePayload, ...errorTypes(restartServiceErrors)],
});

builder.mutationField('restartService', (t) =>
  t.field({
    type: RestartServiceResult,
    description:
      'Has the service manager restart this service, for an ADMIN: acts finish, streams end with SERVICE_DRAINING and continue afterwards, members’ tmux servers are not touched. EUNSUPPORTED where no service manager started it. Needs the password again, a grant, or a key with ADMIN that an ADMIN made.',
    args: {
      input: t.arg({ type: RestartServiceInput, required: true, description: 'Why.' }),
    },
    resolve: (_, { input }, context) =>
      restartService(context, {
        idempotencyKey: input.idempotencyKey,
        reason: input.reason ?? null,
        password: input.password,
        grant: input.grant,
      }),
  }),
);
