import type { ScreenCapture } from './screen-capture.ts';

/**
 * The bytes of a snapshot: written to a blank terminal of columns x rows they give the visible
 * screen, the cursor and the modes that tmux tells; what the program writes next continues them.
 *
 * Each row is put at its own place with wrapping off, so that a terminal which thinks otherwise
 * about the width of a character spoils one row at most. tmux carries colours over from row to row:
 * rows must be written in their order. Not told by any tmux, and so not in here: the colours that
 * the next character will have, the character set in use, and the cursor saved by DECSC.
 */
export function composeScreen(screen: ScreenCapture, carry: Uint8Array): Buffer {
  const parts: (string | Uint8Array)[] = [drawingBegins, tabStops(screen)];
  if (screen.alternate) {
    parts.push(...savedScreen(screen), alternateScreen, drawingBegins);
  }
  const last = pendingWrap(screen) ? screen.cursorRow : undefined;
  parts.push(...rows(screen.visibleRows.slice(0, screen.rows)), plain);
  parts.push(...modesThatMove(screen));
  parts.push(...cursor(screen, last));
  parts.push(...otherModes(screen), screen.pending.length > 0 ? screen.pending : carry);
  return Buffer.concat(parts.map((part) => Buffer.from(part)));
}

/** No wrapping; and G1 is line drawing, which `capture-pane -e` switches to by SO and back by SI. */
const drawingBegins = '\x1b[?7l\x1b)0';
const plain = '\x1b[m\x0f\x1b)B\x1b[?7h';
const alternateScreen = '\x1b[?1049h';

function* rows(lines: readonly Buffer[]): Generator<string | Uint8Array> {
  for (const [index, line] of lines.entries()) {
    if (line.length === 0) continue;
    yield position(index, 0);
    yield line;
  }
}

function* savedScreen(screen: ScreenCapture): Generator<string | Uint8Array> {
  // It keeps the size that it had; where that was more rows, tmux will drop them from the top.
  const { savedCursor } = screen;
  const extra = Math.max(0, screen.savedRows.length - screen.rows);
  yield* rows(screen.savedRows.slice(extra));
  yield plain;
  if (savedCursor !== undefined) yield position(savedCursor.row, savedCursor.column);
}

function tabStops(screen: ScreenCapture): string {
  const { tabs, columns } = screen;
  if (tabs === undefined) return '';
  const usual = Array.from({ length: Math.ceil(columns / 8) - 1 }, (_, index) => 8 * (index + 1));
  if (tabs.join() === usual.join()) return '';
  const inside = tabs.filter((column) => column > 0 && column < columns);
  return `\x1b[3g${inside.map((column) => `${position(0, column)}\x1bH`).join('')}`;
}

/** The cursor stands behind the last column: the next character goes to the next row. */
function pendingWrap(screen: ScreenCapture): boolean {
  return screen.cursorColumn >= screen.columns;
}

/** These put the cursor home, so they come before it. */
function* modesThatMove(screen: ScreenCapture): Generator<string> {
  const { upper, lower } = screen.scrollRegion;
  if (upper !== 0 || lower !== screen.rows - 1) yield `\x1b[${upper + 1};${lower + 1}r`;
  if (screen.origin) yield '\x1b[?6h';
}

function* cursor(
  screen: ScreenCapture,
  wrapped: number | undefined,
): Generator<string | Uint8Array> {
  const top = screen.origin ? screen.scrollRegion.upper : 0;
  if (wrapped === undefined) {
    yield position(Math.max(0, screen.cursorRow - top), screen.cursorColumn);
    return;
  }
  // Only writing the row's last character brings the cursor there: write the row once more, in the
  // colours that the rows before it had left.
  yield* coloursBefore(screen.visibleRows, wrapped);
  yield '\x1b)0';
  yield position(Math.max(0, wrapped - top), 0);
  const line = screen.visibleRows[wrapped] ?? Buffer.alloc(0);
  yield line;
  yield '\x1b[m\x0f\x1b)B';
}

/** The colour sequences of all rows before `row`, from the last one that begins with a reset. */
function* coloursBefore(lines: readonly Buffer[], row: number): Generator<string> {
  const sequences = Buffer.concat([...lines.slice(0, row)])
    .toString('latin1')
    .match(/\x1b\[[\d;:]*m/g);
  if (sequences === null) return;
  const reset = sequences.findLastIndex((sequence) => /^\x1b\[0?[;m]/.test(sequence));
  yield sequences.slice(Math.max(0, reset)).join('');
}

function* otherModes(screen: ScreenCapture): Generator<string> {
  const { mouse } = screen;
  if (screen.insert) yield '\x1b[4h';
  if (!screen.wrap) yield '\x1b[?7l';
  if (screen.cursorKeys) yield '\x1b[?1h';
  if (screen.keypad) yield '\x1b=';
  if (mouse.standard) yield '\x1b[?1000h';
  if (mouse.button) yield '\x1b[?1002h';
  if (mouse.all) yield '\x1b[?1003h';
  if (mouse.utf8) yield '\x1b[?1005h';
  if (mouse.sgr) yield '\x1b[?1006h';
  if (screen.privateModes?.includes(1004)) yield '\x1b[?1004h';
  if (screen.bracketedPaste) yield '\x1b[?2004h';
  if (screen.cursorShape !== null)
    yield shape(screen.cursorShape.name, screen.cursorShape.blinking);
  if (!screen.cursorVisible) yield '\x1b[?25l';
}

function shape(name: string, blinking: boolean): string {
  const steady = name === 'block' ? 2 : name === 'underline' ? 4 : name === 'bar' ? 6 : undefined;
  return steady === undefined ? '' : `\x1b[${blinking ? steady - 1 : steady} q`;
}

/** Row and column from 0. */
function position(row: number, column: number): string {
  return `\x1b[${row + 1};${column + 1}H`;
}
