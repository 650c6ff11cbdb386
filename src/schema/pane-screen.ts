import {
  leastScreens,
  mostScreens,
  type PaneScreenValue,
  paneScreen,
} from '../resolvers/pane-output.ts';
import { thrown } from '../resolvers/stream.ts';
import { withoutSequences } from '../tmux/output/plain-text.ts';
import { builder } from './builder.ts';
import { ControlSequences } from './enums.ts';
import { ListingUnknownError, NotFoundError, StaleGenerationError } from './errors.ts';
import { idArgument } from './global-ids.ts';
import { PaneClosed } from './pane-output.ts';

const PaneScreen = builder.objectRef<PaneScreenValue>('PaneScreen').implement({
  description: 'A picture of a pane at one moment. Untrusted text of the member.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', {
      description: 'The place after it: `after` of `paneOutput` continues this picture.',
    }),
    at: t.expose('at', { type: 'DateTime', description: 'When it was taken.' }),
    text: t.string({
      description:
        'The rows, each ended by LF, with colours and styles as escape sequences, which carry over from row to row. Bytes that are no UTF-8 are replaced.',
      args: {
        controls: t.arg({
          type: ControlSequences,
          defaultValue: 'KEPT',
          description: 'What becomes of colours and styles.',
        }),
      },
      resolve: ({ screen }, { controls }) => {
        const text = new TextDecoder().decode(screen);
        return controls === 'STRIPPED' ? withoutSequences(text, 'text') : text;
      },
    }),
    columns: t.exposeInt('columns', { description: 'Width of the screen.' }),
    rows: t.exposeInt('rows', { description: 'Height of the screen.' }),
    cursorColumn: t.exposeInt('cursorColumn', { description: 'Column of the cursor, from 0.' }),
    cursorRow: t.exposeInt('cursorRow', { description: 'Row of the cursor, from 0.' }),
    alternateScreen: t.exposeBoolean('alternateScreen', {
      description: 'A full-screen program shows its own screen.',
    }),
  }),
});

const PaneScreenEvent = builder.unionType('PaneScreenEvent', {
  description: 'An event of `paneScreen`. An error is the first and only one.',
  types: [PaneScreen, PaneClosed, StaleGenerationError, NotFoundError, ListingUnknownError],
});

builder.subscriptionField('paneScreen', (t) =>
  t.field({
    type: PaneScreenEvent,
    description:
      'The whole screen of a pane, for thumbnails: now, then whenever it changed, at most so often; PaneClosed is last. All who watch a pane share its captures. Watching changes nothing for the member.',
    args: {
      paneId: t.arg.id({ required: true, description: 'Which pane.' }),
      maxPerSecond: t.arg.float({
        defaultValue: 1,
        description: `Screens in a second at most: ${leastScreens} to ${mostScreens}.`,
      }),
    },
    subscribe: (_, { paneId, maxPerSecond }, context) =>
      paneScreen(context, idArgument('TmuxPane', 'paneId', paneId).ref, maxPerSecond ?? 1),
    resolve: (event) => thrown(event),
  }),
);
