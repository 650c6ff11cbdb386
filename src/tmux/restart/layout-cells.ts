/** What a layout is made of, and how tmux writes it down: see layout.ts for the grammar and its rules. */

export interface LayoutBox {
  readonly columns: number;
  readonly rows: number;
  readonly left: number;
  readonly top: number;
}
export interface LayoutPane extends LayoutBox {
  readonly kind: 'pane';
  /** `%n` as a number, in the life of the server that wrote it; null where the text has none. */
  readonly pane: number | null;
}
/** `columns`: children side by side. `rows`: one above the other. */
export interface LayoutSplit extends LayoutBox {
  readonly kind: 'columns' | 'rows';
  readonly children: readonly LayoutCell[];
}
export type LayoutCell = LayoutPane | LayoutSplit;

export interface WindowLayout {
  readonly root: LayoutCell;
  /** Panes that float above the others; not part of `root`. */
  readonly floating: readonly LayoutPane[];
}

/** Not a layout that is safe to give to tmux; says what is wrong with it. */
export class LayoutError extends Error {
  override readonly name = 'LayoutError';
}

export const maximumBytes = 8_191;

/** The panes, in the order in which tmux fills the cells. */
export function panesOf(cell: LayoutCell): readonly LayoutPane[] {
  return cell.kind === 'pane' ? [cell] : cell.children.flatMap(panesOf);
}

/** The old form with its checksum. @throws LayoutError when it would be longer than tmux can read */
export function emitLayout(root: LayoutCell): string {
  const body = emitCell(root);
  if (body.length + 5 > maximumBytes) throw new LayoutError(`it is over ${maximumBytes} bytes`);
  return `${layoutChecksum(body)},${body}`;
}

/** tmux's 16-bit rotating sum, as four hex digits. */
export function layoutChecksum(body: string): string {
  let sum = 0;
  for (let at = 0; at < body.length; at += 1) {
    sum = (sum >> 1) + ((sum & 1) << 15);
    sum = (sum + body.charCodeAt(at)) & 0xffff;
  }
  return sum.toString(16).padStart(4, '0');
}

/** Without checksum; also what tells two cells apart. */
export function emitCell(cell: LayoutCell): string {
  const size = `${cell.columns}x${cell.rows},${cell.left},${cell.top}`;
  if (cell.kind === 'pane') return cell.pane === null ? size : `${size},${cell.pane}`;
  const children = cell.children.map(emitCell).join(',');
  return cell.kind === 'columns' ? `${size}{${children}}` : `${size}[${children}]`;
}
