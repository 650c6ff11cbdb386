import { paneNodes } from '../resolvers/nodes.ts';
import { windowId } from './global-ids.ts';
import { Node, TmuxPane, TmuxSession, TmuxWindow } from './refs.ts';

TmuxWindow.implement({
  description:
    'A window as linked into one session. A window that is linked into several appears in each, once per session, at its lowest index.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.id({ description: 'Opaque; names the link.', resolve: windowId }),
    tmuxId: t.string({
      description: "tmux's own id, `@7`. For people: tmux hands it out again after a restart.",
      resolve: ({ view }) => `@${view.window}`,
    }),
    index: t.int({
      description: 'Its place in the session.',
      resolve: ({ view }) => view.index,
    }),
    name: t.string({
      description: 'Its name, as tmux has it. Untrusted text of the member.',
      resolve: ({ view }) => view.name,
    }),
    active: t.boolean({
      description: 'It is the current window of the session.',
      resolve: ({ view }) => view.active,
    }),
    layout: t.string({
      description: 'How its panes are laid out, as its tmux version writes it.',
      resolve: ({ view }) => view.layout,
    }),
    panes: t.field({
      type: [TmuxPane],
      description: 'Its panes by index.',
      resolve: paneNodes,
    }),
    session: t.field({
      type: TmuxSession,
      description: 'The session that it is linked into.',
      resolve: ({ session }) => session,
    }),
  }),
});
