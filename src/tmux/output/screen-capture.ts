import type { BlockAnswer } from './control-block.ts';
import { type ControlLine, controlLine } from './control-line.ts';

/** A screen as tmux tells it: what a snapshot is made of. */
export interface ScreenCapture {
  readonly columns: number;
  readonly rows: number;
  readonly cursorColumn: number;
  readonly cursorRow: number;
  readonly dead: boolean;
  readonly alternate: boolean;
  /** Of the main screen while the alternate one shows; undefined where tmux saved none. */
  readonly savedCursor: { readonly column: number; readonly row: number } | undefined;
  readonly savedRows: readonly Buffer[];
  readonly visibleRows: readonly Buffer[];
  /** What the program wrote of an escape sequence that is not complete yet. */
  readonly pending: Buffer;
  readonly cursorVisible: boolean;
  readonly insert: boolean;
  readonly origin: boolean;
  readonly wrap: boolean;
  readonly cursorKeys: boolean;
  readonly keypad: boolean;
  readonly mouse: {
    readonly standard: boolean;
    readonly button: boolean;
    readonly all: boolean;
    readonly utf8: boolean;
    readonly sgr: boolean;
  };
  /** First and last row, from 0. */
  readonly scrollRegion: { readonly upper: number; readonly lower: number };
  /** Columns, from 0; undefined where tmux does not tell. */
  readonly tabs: readonly number[] | undefined;
  /** From 3.7 on; null before. */
  readonly bracketedPaste: boolean | null;
  readonly cursorShape: { readonly name: string; readonly blinking: boolean } | null;
  /** Numbers of DEC private modes that are on, from 3.8 on; null before. */
  readonly privateModes: readonly number[] | null;
}

/** Asked in one go (control-client.ts), so that they speak of one moment; the screen comes last. */
export function captureLines(pane: number): readonly ControlLine[] {
  return [
    controlLine`display-message -p -t %${pane} '#{pane_id},#{pane_width},#{pane_height},#{cursor_x},#{cursor_y},#{pane_dead},#{alternate_on},#{alternate_saved_x},#{alternate_saved_y},#{cursor_flag},#{insert_flag},#{origin_flag},#{wrap_flag},#{keypad_cursor_flag},#{keypad_flag},#{mouse_standard_flag},#{mouse_button_flag},#{mouse_all_flag},#{mouse_utf8_flag},#{mouse_sgr_flag},#{scroll_region_upper},#{scroll_region_lower},#{bracket_paste_flag},#{cursor_shape},#{cursor_blinking},/#{pane_tabs},/#{pane_private_modes}'`,
    controlLine`capture-pane -p -e -N -q -a -t %${pane}`,
    controlLine`capture-pane -p -P -C -t %${pane}`,
    controlLine`capture-pane -p -e -N -t %${pane}`,
  ];
}

/** Undefined when tmux says that there is no such pane, or what it never should. */
export function readCapture(answers: readonly BlockAnswer[]): ScreenCapture | undefined {
  const [formats, saved, pending, visible] = answers;
  if (!formats?.ok || !saved?.ok || !pending?.ok || !visible?.ok) return undefined;
  const [plain = '', tabs = '', modes = ''] = (formats.lines[0]?.toString('latin1') ?? '').split(
    ',/',
  );
  const words = plain.split(',');
  if (!/^%\d+$/.test(words[0] ?? '')) return undefined;
  const [columns = 0, rows = 0, cursorColumn = 0, cursorRow = 0] = words.slice(1, 5).map(Number);
  if (![columns, rows, cursorColumn, cursorRow].every(Number.isSafeInteger)) return undefined;
  if (columns < 1 || rows < 1) return undefined;
  const flag = (index: number) => words[index] === '1';
  const [savedColumn, savedRow] = [Number(words[7]), Number(words[8])];
  return {
    columns,
    rows,
    cursorColumn: Math.min(cursorColumn, columns),
    cursorRow: Math.min(cursorRow, rows - 1),
    dead: flag(5),
    alternate: flag(6),
    savedCursor:
      savedColumn <= columns && savedRow < rows
        ? { column: savedColumn, row: savedRow }
        : undefined,
    savedRows: flag(6) ? saved.lines : [],
    visibleRows: visible.lines,
    pending: unescapePending(pending.lines),
    cursorVisible: flag(9),
    insert: flag(10),
    origin: flag(11),
    wrap: words[12] !== '0',
    cursorKeys: flag(13),
    keypad: flag(14),
    mouse: {
      standard: flag(15),
      button: flag(16),
      all: flag(17),
      utf8: flag(18),
      sgr: flag(19),
    },
    scrollRegion: {
      upper: words[20] === '' ? 0 : Number(words[20]),
      lower: words[21] === '' ? rows - 1 : Number(words[21]),
    },
    tabs: /^[\d,]*$/.test(tabs) ? tabs.split(',').filter(Boolean).map(Number) : undefined,
    bracketedPaste: words[22] === '' ? null : flag(22),
    cursorShape: words[23] ? { name: words[23], blinking: flag(24) } : null,
    privateModes: /^\d+(,\d+)*$/.test(modes) ? modes.split(',').map(Number) : null,
  };
}

/** `capture-pane -C` writes control bytes and the backslash as `\ooo`. */
function unescapePending(lines: readonly Buffer[]): Buffer {
  const text = lines.map((line) => line.toString('latin1')).join('\n');
  const raw = text.replace(/\\([0-3][0-7]{2})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
  return Buffer.from(raw, 'latin1');
}

/** A screen of which only text and cursor are known: rows ended by LF, as `capture-pane` prints them. */
export function plainScreen(seen: {
  readonly data: Uint8Array;
  readonly columns: number;
  readonly rows: number;
  readonly cursorColumn: number;
  readonly cursorRow: number;
  readonly alternate: boolean;
}): ScreenCapture {
  const { columns, rows, cursorColumn, cursorRow, alternate } = seen;
  const lines = Buffer.from(seen.data).toString('latin1').split('\n');
  return {
    columns,
    rows,
    cursorColumn: Math.min(cursorColumn, columns),
    cursorRow: Math.min(cursorRow, rows - 1),
    dead: false,
    alternate,
    savedCursor: undefined,
    savedRows: [],
    visibleRows: lines.slice(0, rows).map((line) => Buffer.from(line, 'latin1')),
    pending: Buffer.alloc(0),
    cursorVisible: true,
    insert: false,
    origin: false,
    wrap: true,
    cursorKeys: false,
    keypad: false,
    mouse: { standard: false, button: false, all: false, utf8: false, sgr: false },
    scrollRegion: { upper: 0, lower: rows - 1 },
    tabs: undefined,
    bracketedPaste: null,
    cursorShape: null,
    privateModes: null,
  };
}
