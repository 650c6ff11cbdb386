import { sessionNodes } from '../resolvers/nodes.ts';
import { type ServersPage, tmuxServers } from '../resolvers/tmux-lists.ts';
import { builder } from './builder.ts';
import { Reason, TmuxServerStatus } from './enums.ts';
import { idArguments, serverId } from './global-ids.ts';
import { Listing } from './listing.ts';
import { pageFields } from './page.ts';
import { Member, Node, TmuxServer, TmuxSession } from './refs.ts';

TmuxServer.implement({
  description:
    'A tmux server. Its identity is its member and socket path, so it is the same one after a restart. (A server that lost its path to another one carries its generation in the id as well.)',
  interfaces: [Node],
  fields: (t) => ({
    id: t.id({ description: 'Opaque; stable over restarts.', resolve: serverId }),
    member: t.field({
      type: Member,
      description: 'Whose it is.',
      resolve: ({ member }) => member,
    }),
    socketPath: t.string({
      description: 'Path of its socket. Bytes that are no text are shown escaped.',
      resolve: ({ view }) => view.socketPath,
    }),
    status: t.field({
      type: TmuxServerStatus,
      description: 'What it is doing, from its process and the last attempt to ask it.',
      resolve: ({ view }) => view.status,
    }),
    reason: t.field({
      type: Reason,
      nullable: true,
      description: 'Why it is so, or what is odd although it runs.',
      resolve: ({ view }) => view.reason,
    }),
    detail: t.string({
      nullable: true,
      description: 'The same as a sentence, for people.',
      resolve: ({ view }) => view.detail,
    }),
    generation: t.string({
      nullable: true,
      description:
        'The present life of this server; another string after every restart. Acts name it. Null: none runs, or it is not known.',
      resolve: ({ view }) => view.generation,
    }),
    pid: t.int({
      nullable: true,
      description: 'Its process id.',
      resolve: ({ view }) => view.pid,
    }),
    startedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When that process started.',
      resolve: ({ view }) => view.startedAt,
    }),
    version: t.string({
      nullable: true,
      description: 'The tmux version that it runs, for example `3.3a`.',
      resolve: ({ view }) => view.version,
    }),
    installedVersion: t.string({
      nullable: true,
      description: 'The tmux version that a restart would give.',
      resolve: ({ view }) => view.installedVersion,
    }),
    outdated: t.boolean({
      nullable: true,
      description: 'It runs another version than the installed one.',
      resolve: ({ view }) => view.outdated,
    }),
    binaryDeleted: t.boolean({
      nullable: true,
      description: 'The file of its binary was removed or replaced; it runs on.',
      resolve: ({ view }) => view.binaryDeleted,
    }),
    openFiles: t.int({
      nullable: true,
      description: 'File descriptors in use.',
      resolve: ({ view }) => view.openFiles,
    }),
    openFilesLimit: t.int({
      nullable: true,
      description: 'File descriptors that it may use.',
      resolve: ({ view }) => view.openFilesLimit,
    }),
    cpuPercent: t.float({
      nullable: true,
      description: 'Use of one core, in per cent, between the last two looks.',
      resolve: ({ view }) => view.cpuPercent,
    }),
    idle: t.boolean({
      nullable: true,
      description:
        'True: proved, as of `listing.observedAt`. Nobody is attached, nothing was written for long, and each pane is a shell at rest or an agent that says itself that it is idle. False: proved not to be. Null: not known.',
      resolve: ({ view }) => view.idle,
    }),
    workingAgents: t.int({
      nullable: true,
      description: 'Panes whose agent is WORKING. Null: not known.',
      resolve: ({ view }) => view.workingAgents,
    }),
    attachedClients: t.int({
      nullable: true,
      description: 'Attached clients, ours not counted.',
      resolve: ({ view }) => view.attachedClients,
    }),
    listing: t.field({
      type: Listing,
      description: 'How good `sessions` is.',
      resolve: ({ view }) => view.listing,
    }),
    sessions: t.field({
      type: [TmuxSession],
      nullable: true,
      description: 'Its sessions by id. Null: not known (see `listing`). Empty: it said so itself.',
      resolve: sessionNodes,
    }),
  }),
});

const TmuxServerConnection = builder.objectRef<ServersPage>('TmuxServerConnection').implement({
  description: 'A page of tmux servers, by login of the member, then by path.',
  fields: (t) => ({
    ...pageFields('TmuxServer', TmuxServer, t),
    complete: t.exposeBoolean('complete', {
      description:
        'False when the listing of some visible member, or of one of its servers, is unknown; with `idle` also when it is not known of some server whether it is.',
    }),
    unknownMembers: t.expose('unknownMembers', {
      type: [Member],
      description: 'Members whose servers are not known, so that none of them is in here.',
    }),
  }),
});

const TmuxServerFilter = builder.inputType('TmuxServerFilter', {
  description: 'Which tmux servers; everything that is given must hold.',
  fields: (t) => ({
    memberIds: t.idList({ description: 'Servers of these members.' }),
    status: t.field({ type: [TmuxServerStatus], description: 'Servers in one of these states.' }),
    outdated: t.boolean({
      description: 'Servers that are (or are not) known to be outdated.',
    }),
    idle: t.boolean({
      description: 'Servers that are proved idle, or proved not to be. Not known is neither.',
    }),
  }),
});

builder.queryField('tmuxServers', (t) =>
  t.field({
    type: TmuxServerConnection,
    description: 'The tmux servers of every visible member, by login, then by path.',
    args: {
      first: t.arg.int({ defaultValue: 20, description: 'Size of the page: 1 to 100.' }),
      after: t.arg.string({ description: 'Rows after this cursor.' }),
      filter: t.arg({ type: TmuxServerFilter, description: 'Which servers; null: all.' }),
    },
    resolve: (_, { first, after, filter }, context) =>
      tmuxServers(context, {
        first,
        after,
        memberIds:
          filter?.memberIds == null
            ? undefined
            : idArguments('Member', 'filter.memberIds', filter.memberIds).map(({ id }) => id),
        status: filter?.status ?? undefined,
        outdated: filter?.outdated ?? undefined,
        idle: filter?.idle ?? undefined,
      }),
  }),
);
