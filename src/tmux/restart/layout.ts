import { isAtLeast } from '../tmux-version.ts';
import {
  type LayoutBox,
  type LayoutCell,
  LayoutError,
  panesOf,
  type WindowLayout,
} from './layout-cells.ts';
import { readJsonLayout, readOldLayout } from './layout-text.ts';

/**
 * The geometry of a window's panes, as tmux writes it.
 *
 * Two forms are read. The old one (all versions; 3.7 adds `<…>` for floating panes):
 *
 *   layout    = checksum "," cell [ "<" pane *("," pane) ">" ]
 *   cell      = size [ "," pane-id ] | size "{" cell 1*("," cell) "}" | size "[" cell 1*("," cell) "]"
 *   size      = columns "x" rows "," left "," top
 *
 * and the JSON of 3.8, `{"V":2,"L":{"t":"h","w":…,"c":[…]}}`. Only the old one is written: every
 * version takes it.
 *
 * What passes is safe to hand to any tmux: text that is no layout ends a 3.3a server, and a right
 * checksum over a broken body ends a 3.7c one. So after `parseLayout` these hold: each container
 * has two children or more, they fill it exactly (one line between neighbours) and stand where
 * their sizes say, no size is 0 or above 10,000, no pane id comes twice, and the whole is at most
 * 8,191 bytes, which is what tmux itself can write.
 */

const maximumSize = 10_000;

/** @throws LayoutError */
export function parseLayout(text: string): WindowLayout {
  const drawn = text.startsWith('{') ? readJsonLayout(text) : readOldLayout(text);
  const root = withoutFloating(drawn.root, new Set(drawn.floating));
  if (root === undefined) throw new LayoutError('every pane floats');
  if (root.left !== 0 || root.top !== 0) throw new LayoutError('it does not begin at 0,0');
  checkFilled(root);
  const ids = [...panesOf(root), ...drawn.floating].flatMap(({ pane }) => pane ?? []);
  if (new Set(ids).size !== ids.length) throw new LayoutError('a pane comes twice');
  return { root, floating: drawn.floating };
}

const presets = [
  'even-horizontal',
  'even-vertical',
  'main-horizontal',
  'main-vertical',
  'tiled',
] as const;
const mirrored = ['main-horizontal-mirrored', 'main-vertical-mirrored'] as const;
export type LayoutPreset = (typeof presets)[number] | (typeof mirrored)[number];

/** The names that this version knows; an unknown one ends a 3.3a server. */
export function layoutPresets(version: string): readonly LayoutPreset[] {
  return isAtLeast(version, 3, 5) ? [...presets, ...mirrored] : presets;
}

/** tmux keeps floating panes among the tiled ones, without giving them room there. */
function withoutFloating(
  cell: LayoutCell,
  floating: ReadonlySet<LayoutCell>,
): LayoutCell | undefined {
  if (floating.has(cell)) return undefined;
  if (cell.kind === 'pane') return cell;
  const children = cell.children.flatMap((child) => withoutFloating(child, floating) ?? []);
  if (children.length > 1 || children.length === cell.children.length) return { ...cell, children };
  const [only] = children;
  if (only !== undefined && emitBox(only) !== emitBox(cell)) {
    throw new LayoutError('a container is not filled');
  }
  return only;
}

function emitBox({ columns, rows, left, top }: LayoutBox): string {
  return `${columns}x${rows},${left},${top}`;
}

function checkFilled(cell: LayoutCell): void {
  for (const size of [cell.columns, cell.rows]) {
    if (size < 1 || size > maximumSize) throw new LayoutError(`a size of ${size} is not possible`);
  }
  if (cell.kind === 'pane') return;
  if (cell.children.length < 2) throw new LayoutError('a container has fewer than two children');
  const across = cell.kind === 'columns';
  let at = across ? cell.left : cell.top;
  for (const child of cell.children) {
    const fits = across
      ? child.left === at && child.top === cell.top && child.rows === cell.rows
      : child.top === at && child.left === cell.left && child.columns === cell.columns;
    if (!fits) throw new LayoutError('a pane does not stand where its neighbours end');
    at += (across ? child.columns : child.rows) + 1;
    checkFilled(child);
  }
  const end = across ? cell.left + cell.columns : cell.top + cell.rows;
  if (at - 1 !== end) throw new LayoutError('the children do not fill their container');
}
