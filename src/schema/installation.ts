import {
  type InstallationValue,
  installation,
  visibleProblemMember,
} from '../resolvers/service.ts';
import type { Problem as ProblemValue } from '../tmux/fleet.ts';
import { builder } from './builder.ts';
import { Member } from './refs.ts';

const Mode = builder.enumType('Mode', {
  description: 'How members are reached.',
  values: {
    LOCAL: {
      description: "As the service's own user: one uid, no security border between members.",
    },
    SYSTEM: { description: 'Each member is a Linux user, reached through sudo and the helper.' },
  } as const,
});

const Problem = builder.objectRef<ProblemValue>('Problem').implement({
  description: 'Something about the installation that should be put right.',
  fields: (t) => ({
    code: t.exposeString('code', { description: 'For programs.' }),
    message: t.exposeString('message', { description: 'What is wrong.' }),
    remedy: t.exposeString('remedy', { description: 'What to do about it.' }),
    member: t.field({
      type: Member,
      nullable: true,
      description: 'The member it is about; null: it is about all of them.',
      resolve: (problem, _, context) => visibleProblemMember(context, problem),
    }),
  }),
});

const Limit = builder
  .objectRef<{ readonly name: string; readonly value: number }>('Limit')
  .implement({
    description: 'A limit that is in force.',
    fields: (t) => ({
      name: t.exposeString('name', { description: 'The environment variable that sets it.' }),
      value: t.exposeInt('value', { description: 'Its value.' }),
    }),
  });

const Installation = builder.objectRef<InstallationValue>('Installation').implement({
  description: 'Facts about this service itself.',
  fields: (t) => ({
    version: t.exposeString('version', { description: 'Version of muxwarden.' }),
    startedAt: t.expose('startedAt', { type: 'DateTime', description: 'When it was started.' }),
    mode: t.expose('mode', { type: Mode, description: 'How members are reached.' }),
    installedTmuxVersion: t.exposeString('installedTmuxVersion', {
      nullable: true,
      description: 'Version of the tmux that starts servers; null: none was found.',
    }),
    tmuxBinary: t.exposeString('tmuxBinary', {
      nullable: true,
      description: 'Where that tmux is.',
    }),
    problems: t.expose('problems', {
      type: [Problem],
      description: 'What should be put right.',
    }),
    eventLoopDelayP99Ms: t.exposeFloat('eventLoopDelayP99Ms', {
      description:
        "99th percentile of the delay of the service's event loop since the last reading, in milliseconds.",
    }),
    helperCalls: t.exposeInt('helperCalls', {
      description: 'Helper processes started since the service was started.',
    }),
    liveSockets: t.exposeInt('liveSockets', {
      description: "Sockets in the members' directories that a tmux server listens on.",
    }),
    orphanedSockets: t.exposeInt('orphanedSockets', {
      description: "Sockets in the members' directories that nobody listens on.",
    }),
    limits: t.expose('limits', { type: [Limit], description: 'The limits in force.' }),
  }),
});

builder.queryField('installation', (t) =>
  t.field({
    type: Installation,
    nullable: true,
    description: 'Facts about this service. Null with FORBIDDEN in `errors` but for an ADMIN.',
    resolve: (_, _args, context) => installation(context),
  }),
);
