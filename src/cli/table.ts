import { escapeText } from '../escape.ts';

/** Rows under their headings, for a terminal; the text of members can't break out of its cell. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [headings, ...rows.map((row) => row.map(escapeText))];
  const widths = headings.map((_, column) =>
    Math.max(...cells.map((row) => [...(row[column] ?? '')].length)),
  );
  return cells
    .map((row) =>
      row
        .map((text, column) => text + ' '.repeat((widths[column] ?? 0) - [...text].length))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** `2026-11-29 16:50Z` */
export function isoMinute(moment: Date): string {
  return moment
    .toISOString()
    .replace('T', ' ')
    .replace(/:\d\d\.\d+Z$/, 'Z');
}
