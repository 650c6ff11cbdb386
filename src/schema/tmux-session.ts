import { windowNodes } from '../resolvers/nodes.ts';
import { sessionId } from './global-ids.ts';
import { Node, TmuxServer, TmuxSession, TmuxWindow } from './refs.ts';

TmuxSession.implement({
  description: 'A session of one life of a tmux server.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.id({ description: 'Opaque; dies with this life of the server.', resolve: sessionId }),
    tmuxId: t.string({
      description: "tmux's own id, `$3`. For people: tmux hands it out again after a restart.",
      resolve: ({ view }) => `$${view.session}`,
    }),
    name: t.string({
      description: 'Its name, as tmux has it. Untrusted text of the member.',
      resolve: ({ view }) => view.name,
    }),
    createdAt: t.field({
      type: 'DateTime',
      description: 'When it was made.',
      resolve: ({ view }) => view.createdAt,
    }),
    attachedClients: t.int({
      nullable: true,
      description: 'Attached clients, ours not counted.',
      resolve: ({ view }) => view.attachedClients,
    }),
    windows: t.field({
      type: [TmuxWindow],
      description: 'Its windows by index; one that is linked twice is here once.',
      resolve: windowNodes,
    }),
    server: t.field({
      type: TmuxServer,
      description: 'The server that it is in.',
      resolve: ({ server }) => server,
    }),
  }),
});
