/** What is seen of a pane: its screen once, its output as events, its screen again and again. */

export interface PaneCapture {
  /** Bytes as `capture-pane -e -p` prints them, rows ended by LF. */
  readonly data: Uint8Array;
  readonly columns: number;
  readonly rows: number;
  readonly cursorColumn: number;
  readonly cursorRow: number;
  readonly observedAt: Date;
}

export type PaneSource = 'CONTROL_CLIENT' | 'CAPTURE';
export type PaneGapReason =
  | 'SLOW_READER'
  | 'LOG_TRIMMED'
  | 'SERVICE_RESTARTED'
  | 'RECONNECTED'
  | 'TMUX_PAUSED'
  | 'OVERLOAD';
export type PaneCloseReason =
  | 'EXITED'
  | 'PANE_KILLED'
  | 'SESSION_KILLED'
  | 'SERVER_RESTARTED'
  | 'SERVER_LOST'
  | 'PERMISSION_WITHDRAWN'
  | 'SERVICE_DRAINING';

/** Between control sequences, or where in one. */
export type SequenceState = 'text' | 'escape' | 'intermediate' | 'parameters' | 'string';

/** Positions are opaque cursors that `output(pane, after)` takes again. */
export type PaneOutputEvent =
  | {
      readonly kind: 'snapshot';
      readonly cursor: string;
      readonly at: Date;
      readonly data: Uint8Array;
      readonly columns: number;
      readonly rows: number;
      readonly cursorColumn: number;
      readonly cursorRow: number;
      readonly alternateScreen: boolean;
      readonly source: PaneSource;
      /** The rows alone, with colours and styles, each ended by LF. */
      readonly screen: Uint8Array;
    }
  | {
      readonly kind: 'chunk';
      readonly cursor: string;
      readonly at: Date;
      readonly data: Uint8Array;
      /** The incomplete UTF-8 sequence (0 to 3 bytes) that stood right before `data`. */
      readonly carry: Uint8Array;
      /** In which control sequence `data` begins. */
      readonly state: SequenceState;
    }
  | {
      readonly kind: 'resized';
      readonly cursor: string;
      readonly columns: number;
      readonly rows: number;
    }
  | {
      readonly kind: 'gap';
      readonly cursor: string;
      /** Null where nobody counted, as across our own restart. */
      readonly missedBytes: number | null;
      readonly reason: PaneGapReason;
    }
  | {
      readonly kind: 'closed';
      readonly cursor: string;
      readonly reason: PaneCloseReason;
      readonly exitStatus: number | null;
      readonly exitSignal: number | null;
    };

type PaneEventOf<Kind> = Extract<PaneOutputEvent, { readonly kind: Kind }>;

/** A pane as pictures; a cursor leads to what `output` has after them. */
export type PaneScreenEvent =
  | (Omit<PaneEventOf<'snapshot'>, 'kind' | 'data' | 'source'> & { readonly kind: 'screen' })
  | PaneEventOf<'closed'>;
