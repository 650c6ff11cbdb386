import fc from 'fast-check';
import type { LayoutBox, LayoutCell } from '../../src/tmux/restart/layout-cells.ts';

/** Cuts a box into panes by a list of random numbers, as a member's splits would. */
function cut(box: LayoutBox, random: () => number, next: () => number, depth = 0): LayoutCell {
  const across = random() < 0.5;
  const room = across ? box.columns : box.rows;
  const parts = depth > 4 ? 1 : Math.min(Math.floor(random() * 4), Math.floor((room + 1) / 2));
  if (parts < 2) return { ...box, kind: 'pane', pane: next() };
  const sizes: number[] = [];
  let left = room - (parts - 1);
  for (let part = parts; part > 1; part -= 1) {
    const size = 1 + Math.floor(random() * (left - part + 1));
    sizes.push(size);
    left -= size;
  }
  sizes.push(left);
  let at = across ? box.left : box.top;
  const children = sizes.map((size) => {
    const inner = across ? { ...box, left: at, columns: size } : { ...box, top: at, rows: size };
    at += size + 1;
    return cut(inner, random, next, depth + 1);
  });
  return { ...box, kind: across ? 'columns' : 'rows', children };
}

/** Layouts as members make them, up to that size; panes are numbered in tmux's order. */
export const layouts = (columns = 200, rows = 60) =>
  fc
    .record({
      columns: fc.integer({ min: 1, max: columns }),
      rows: fc.integer({ min: 1, max: rows }),
      seed: fc.array(fc.nat({ max: 99 }), { minLength: 48, maxLength: 48 }),
    })
    .map(({ columns, rows, seed }) => {
      let id = 0;
      let at = 0;
      return cut(
        { columns, rows, left: 0, top: 0 },
        () => (seed[at++ % seed.length] ?? 0) / 100,
        () => id++,
      );
    });

/** As 3.8 writes it. */
export function layoutJson(cell: LayoutCell): unknown {
  const box = { w: cell.columns, h: cell.rows, x: cell.left, y: cell.top };
  return cell.kind === 'pane'
    ? { t: 'p', ...box, l: 1, i: cell.pane, I: `%${cell.pane}` }
    : { t: cell.kind === 'columns' ? 'h' : 'v', ...box, c: cell.children.map(layoutJson) };
}
