import {
  type PaneChunkValue,
  type PaneClosedValue,
  type PaneGapValue,
  type PaneResizedValue,
  type PaneSnapshotValue,
  paneOutput,
} from '../resolvers/pane-output.ts';
import { thrown } from '../resolvers/stream.ts';
import { textOf } from '../tmux/output/pane-text.ts';
import { withoutSequences } from '../tmux/output/plain-text.ts';
import { builder } from './builder.ts';
import { ControlSequences } from './enums.ts';
import { ListingUnknownError, NotFoundError, StaleGenerationError } from './errors.ts';
import { idArgument } from './global-ids.ts';

const PaneSource = builder.enumType('PaneSource', {
  description: 'How the bytes of a pane are had.',
  values: {
    CONTROL_CLIENT: { description: 'From a control client: every byte, as it is written.' },
    CAPTURE: {
      description:
        'From captures, now and then: attaching would have disturbed the session (`destroy-unattached`, `exit-unattached`).',
    },
  } as const,
});

const PaneGapReason = builder.enumType('PaneGapReason', {
  description: 'Why bytes were skipped.',
  values: {
    SLOW_READER: { description: 'This subscriber read too slowly.' },
    LOG_TRIMMED: { description: 'The log no longer holds what comes after the cursor.' },
    SERVICE_RESTARTED: { description: 'The cursor is from before a restart of the service.' },
    RECONNECTED: { description: 'The control client was lost and made again.' },
    TMUX_PAUSED: { description: 'tmux held back output and dropped it.' },
    OVERLOAD: { description: 'More came than can be kept.' },
  } as const,
});

const PaneCloseReason = builder.enumType('PaneCloseReason', {
  description: 'Why there are no more bytes.',
  values: {
    EXITED: { description: 'The program of the pane ended.' },
    PANE_KILLED: { description: 'The pane is gone.' },
    SESSION_KILLED: { description: 'The session is gone.' },
    SERVER_RESTARTED: { description: 'The tmux server was restarted; ids of before are stale.' },
    SERVER_LOST: { description: 'The tmux server ended.' },
    PERMISSION_WITHDRAWN: { description: 'Your right to see this pane ended.' },
    SERVICE_DRAINING: { description: 'The service stops. Subscribe again with the last cursor.' },
  } as const,
});

const none = new Uint8Array();

const PaneSnapshot = builder.objectRef<PaneSnapshotValue>('PaneSnapshot').implement({
  description:
    'The screen now. `data`, written to a blank terminal of `columns` x `rows`, gives the visible screen, the cursor and the modes that tmux tells; the chunks that follow continue it. Untrusted bytes of the member.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', { description: 'The place after it, for `after`. Opaque.' }),
    at: t.expose('at', { type: 'DateTime', description: 'When it was taken.' }),
    data: t.expose('data', { type: 'Bytes', description: 'What to write to the terminal.' }),
    text: t.string({
      description:
        'The same as text, control sequences included; a character that is cut at the end comes with the next chunk.',
      resolve: ({ data }) => textOf(data, none),
    }),
    columns: t.exposeInt('columns', { description: 'Width of the screen.' }),
    rows: t.exposeInt('rows', { description: 'Height of the screen.' }),
    cursorColumn: t.exposeInt('cursorColumn', { description: 'Column of the cursor, from 0.' }),
    cursorRow: t.exposeInt('cursorRow', { description: 'Row of the cursor, from 0.' }),
    alternateScreen: t.exposeBoolean('alternateScreen', {
      description: 'A full-screen program shows its own screen.',
    }),
    source: t.expose('source', { type: PaneSource, description: 'How it was had.' }),
  }),
});

const PaneChunk = builder.objectRef<PaneChunkValue>('PaneChunk').implement({
  description: 'The bytes that came next. Untrusted bytes of the member.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', { description: 'The place after it, for `after`. Opaque.' }),
    at: t.expose('at', { type: 'DateTime', description: 'When they came.' }),
    data: t.expose('data', { type: 'Bytes', description: 'The bytes, exactly.' }),
    text: t.string({
      description:
        'The same as text, in whole characters: one that is cut at the end comes with the next chunk. Bytes that are no UTF-8 are replaced.',
      args: {
        controls: t.arg({
          type: ControlSequences,
          defaultValue: 'KEPT',
          description: 'What becomes of colours, cursor movements and the like.',
        }),
      },
      resolve: ({ data, carry, state }, { controls }) => {
        const text = textOf(data, carry);
        return controls === 'STRIPPED' ? withoutSequences(text, state) : text;
      },
    }),
  }),
});

const PaneResized = builder.objectRef<PaneResizedValue>('PaneResized').implement({
  description: 'The pane has another size from here on.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', { description: 'The place, for `after`. Opaque.' }),
    columns: t.exposeInt('columns', { description: 'The new width.' }),
    rows: t.exposeInt('rows', { description: 'The new height.' }),
  }),
});

const PaneGap = builder.objectRef<PaneGapValue>('PaneGap').implement({
  description: 'Bytes were skipped here. A new PaneSnapshot follows.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', { description: 'The place after it, for `after`. Opaque.' }),
    missedBytes: t.expose('missedBytes', {
      type: 'ByteCount',
      nullable: true,
      description: 'How many; null where nobody counted.',
    }),
    gapReason: t.expose('reason', { type: PaneGapReason, description: 'Why.' }),
  }),
});

export const PaneClosed = builder.objectRef<PaneClosedValue>('PaneClosed').implement({
  description: 'The last event.',
  fields: (t) => ({
    cursor: t.exposeString('cursor', {
      description: 'The end of what was written, also where nothing was sent yet.',
    }),
    closeReason: t.expose('reason', { type: PaneCloseReason, description: 'Why.' }),
    exitStatus: t.exposeInt('exitStatus', {
      nullable: true,
      description: 'Exit status of the program, where it ended and tmux told.',
    }),
    exitSignal: t.exposeInt('exitSignal', {
      nullable: true,
      description: 'The signal that ended the program, where tmux told.',
    }),
  }),
});

const PaneOutputEvent = builder.unionType('PaneOutputEvent', {
  description: 'An event of `paneOutput`. An error is the first and only one.',
  types: [
    PaneSnapshot,
    PaneChunk,
    PaneResized,
    PaneGap,
    PaneClosed,
    StaleGenerationError,
    NotFoundError,
    ListingUnknownError,
  ],
});

builder.subscriptionField('paneOutput', (t) =>
  t.field({
    type: PaneOutputEvent,
    description:
      'What a pane writes: a PaneSnapshot, then PaneChunks, exact to the byte and in order. Where bytes had to be skipped a PaneGap says so and a new PaneSnapshot follows; PaneClosed is last. Watching changes nothing for the member.',
    args: {
      paneId: t.arg.id({ required: true, description: 'Which pane.' }),
      after: t.arg.string({
        description:
          'The cursor of the last event that you have: continues there without loss while that is still held.',
      }),
    },
    subscribe: (_, { paneId, after }, context) =>
      paneOutput(context, idArgument('TmuxPane', 'paneId', paneId).ref, after ?? null),
    resolve: (event) => thrown(event),
  }),
);
