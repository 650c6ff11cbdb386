import { agentOf } from '../resolvers/agents.ts';
import { capture, type PaneCaptureValue } from '../resolvers/capture.ts';
import { linksOf, paneRef } from '../resolvers/nodes.ts';
import { type PanesPage, panes } from '../resolvers/tmux-lists.ts';
import { withoutSequences } from '../tmux/output/plain-text.ts';
import { Agent, AgentState } from './agent.ts';
import { builder } from './builder.ts';
import { ControlSequences } from './enums.ts';
import { ListingUnknownError, NotFoundError, StaleGenerationError } from './errors.ts';
import { idArgument, idArguments, paneId } from './global-ids.ts';
import { pageFields } from './page.ts';
import { Member, Node, TmuxPane, TmuxServer, TmuxWindow } from './refs.ts';

const PaneCapture = builder.objectRef<PaneCaptureValue>('PaneCapture').implement({
  description: 'What was on the screen of a pane at one moment. Untrusted bytes of the member.',
  fields: (t) => ({
    text: t.string({
      description: 'The same as text; bytes that are no UTF-8 are replaced.',
      args: {
        controls: t.arg({
          type: ControlSequences,
          defaultValue: 'KEPT',
          description: 'What becomes of colours and styles.',
        }),
      },
      resolve: ({ data }, { controls }) => {
        const text = new TextDecoder().decode(data);
        return controls === 'STRIPPED' ? withoutSequences(text, 'text') : text;
      },
    }),
    data: t.expose('data', {
      type: 'Bytes',
      description: 'Rows with colours and styles as escape sequences, ended by LF.',
    }),
    columns: t.exposeInt('columns', { description: 'Width of the screen.' }),
    rows: t.exposeInt('rows', { description: 'Height of the screen.' }),
    cursorColumn: t.exposeInt('cursorColumn', { description: 'Column of the cursor, from 0.' }),
    cursorRow: t.exposeInt('cursorRow', { description: 'Row of the cursor, from 0.' }),
    observedAt: t.expose('observedAt', { type: 'DateTime', description: 'That moment.' }),
  }),
});

const PaneCaptureResult = builder.unionType('PaneCaptureResult', {
  description: 'The capture, or why there is none.',
  types: [PaneCapture, StaleGenerationError, ListingUnknownError, NotFoundError],
});

TmuxPane.implement({
  description: 'A pane of one life of a tmux server.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.id({ description: 'Opaque; dies with this life of the server.', resolve: paneId }),
    tmuxId: t.string({
      description: "tmux's own id, `%0`. For people: tmux hands it out again after a restart.",
      resolve: ({ view }) => `%${view.pane}`,
    }),
    index: t.int({ description: 'Its place in the window.', resolve: ({ view }) => view.index }),
    title: t.string({
      description: 'The title that its program set. Untrusted text of the member.',
      resolve: ({ view }) => view.title,
    }),
    currentCommand: t.string({
      nullable: true,
      description: 'Name of the program in the foreground.',
      resolve: ({ view }) => view.currentCommand,
    }),
    currentPath: t.string({
      nullable: true,
      description: 'Working directory of that program.',
      resolve: ({ view }) => view.currentPath,
    }),
    startCommand: t.string({
      nullable: true,
      description: 'The command that the pane was started with; null: the default shell.',
      resolve: ({ view }) => view.startCommand,
    }),
    pid: t.int({
      nullable: true,
      description: 'Process id of the program that the pane was started with.',
      resolve: ({ view }) => view.pid,
    }),
    tty: t.string({
      nullable: true,
      description: 'Its terminal.',
      resolve: ({ view }) => view.tty,
    }),
    columns: t.int({ description: 'Its width.', resolve: ({ view }) => view.columns }),
    rows: t.int({ description: 'Its height.', resolve: ({ view }) => view.rows }),
    active: t.boolean({
      description: 'It is the active pane of its window.',
      resolve: ({ view }) => view.active,
    }),
    dead: t.boolean({
      description: 'Its program ended, and the pane was kept (`remain-on-exit`).',
      resolve: ({ view }) => view.dead,
    }),
    exitStatus: t.int({
      nullable: true,
      description: 'Exit status of a dead pane.',
      resolve: ({ view }) => view.exitStatus,
    }),
    exitSignal: t.int({
      nullable: true,
      description: 'The signal that ended a dead pane.',
      resolve: ({ view }) => view.exitSignal,
    }),
    inMode: t.boolean({
      description: 'It is in a mode, such as copy mode.',
      resolve: ({ view }) => view.inMode,
    }),
    agent: t.field({
      type: Agent,
      nullable: true,
      description:
        "The agent in its foreground, as the member's own processes tell. Null: none is known of.",
      resolve: agentOf,
    }),
    capture: t.field({
      type: PaneCaptureResult,
      nullable: true,
      description:
        'What is on its screen now. Null with FORBIDDEN in `errors` without the right to pane content.',
      extensions: { cost: 20 },
      args: {
        lines: t.arg.int({
          defaultValue: 0,
          description:
            'Lines of history above the visible screen: 0 to 10,000. More than 500,000 bytes in all are never cut, but refused as ListingUnknownError with OUTPUT_TOO_LARGE: ask for fewer lines.',
        }),
      },
      resolve: (node, { lines }, context) => capture(context, paneRef(node), lines ?? 0),
    }),
    window: t.field({
      type: TmuxWindow,
      description: 'Its window: of several links the one in the lowest session.',
      resolve: ({ window }) => linksOf(window.session.server, window.view.window)[0] ?? window,
    }),
    windows: t.field({
      type: [TmuxWindow],
      description: 'Every link of its window.',
      resolve: ({ window }) => linksOf(window.session.server, window.view.window),
    }),
    server: t.field({
      type: TmuxServer,
      description: 'The server that it is in.',
      resolve: ({ window }) => window.session.server,
    }),
  }),
});

const TmuxPaneConnection = builder.objectRef<PanesPage>('TmuxPaneConnection').implement({
  description: 'A page of panes, by member, server, session, window and pane.',
  fields: (t) => ({
    ...pageFields('TmuxPane', TmuxPane, t),
    complete: t.exposeBoolean('complete', {
      description:
        'False when the listing of some visible member, or of one of its servers, is unknown.',
    }),
    unknownMembers: t.expose('unknownMembers', {
      type: [Member],
      description: 'Members whose servers are not known, so that no pane of them is in here.',
    }),
    unknownServers: t.expose('unknownServers', {
      type: [TmuxServer],
      description:
        'Servers whose panes are not known, so that none of them is in here. With `agentState` also those where it is not known what runs in some pane.',
    }),
  }),
});

const PaneFilter = builder.inputType('PaneFilter', {
  description: 'Which panes; everything that is given must hold.',
  fields: (t) => ({
    memberIds: t.idList({ description: 'Panes of these members.' }),
    tmuxServerId: t.id({ description: 'Panes of this tmux server.' }),
    command: t.string({ description: 'Panes with exactly this program in the foreground.' }),
    agentState: t.field({
      type: [AgentState],
      description: 'Panes with an agent in one of these states.',
    }),
    dead: t.boolean({ description: 'Panes that are dead, or that are not.' }),
  }),
});

builder.queryField('panes', (t) =>
  t.field({
    type: TmuxPaneConnection,
    description:
      'The panes of every visible member; each once, however often its window is linked.',
    args: {
      first: t.arg.int({ defaultValue: 20, description: 'Size of the page: 1 to 100.' }),
      after: t.arg.string({ description: 'Rows after this cursor.' }),
      filter: t.arg({ type: PaneFilter, description: 'Which panes; null: all.' }),
    },
    resolve: (_, { first, after, filter }, context) =>
      panes(context, {
        first,
        after,
        memberIds:
          filter?.memberIds == null
            ? undefined
            : idArguments('Member', 'filter.memberIds', filter.memberIds).map(({ id }) => id),
        server:
          filter?.tmuxServerId == null
            ? undefined
            : idArgument('TmuxServer', 'filter.tmuxServerId', filter.tmuxServerId).ref,
        command: filter?.command ?? undefined,
        agentState: filter?.agentState ?? undefined,
        dead: filter?.dead ?? undefined,
      }),
  }),
);
