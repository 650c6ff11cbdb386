import { isDeepStrictEqual } from 'node:util';
import type { PaneView, SessionView, WindowView } from '../model.ts';
import type { PaneRow } from './session-rows.ts';

/**
 * The sessions of a look whose lines differ from those of the look before in panes alone that stayed
 * where they were: a title, a command, a directory, as most looks do. These lines are parsed, and
 * everything else stays the very same object. Undefined where more has changed.
 * @param lines those that differ
 */
export function withChangedPanes(
  sessions: readonly SessionView[],
  lines: readonly (readonly [before: string, after: string])[],
  parse: (line: string) => PaneRow | undefined,
): readonly SessionView[] | undefined {
  const changed = new Map<number, Map<number, Map<number, PaneView>>>();
  for (const [before, after] of lines) {
    const [old, row] = [parse(before), parse(after)];
    if (old === undefined || row === undefined || !isSamePlace(old, row)) return undefined;
    if (isDeepStrictEqual(old.view, row.view)) continue;
    const windows = changed.get(row.session) ?? new Map<number, Map<number, PaneView>>();
    changed.set(row.session, windows);
    const panes = windows.get(row.window) ?? new Map<number, PaneView>();
    windows.set(row.window, panes.set(row.view.pane, row.view));
  }
  if (changed.size === 0) return sessions;
  return sessions.map((session) => {
    const windows = changed.get(session.session);
    if (windows === undefined) return session;
    const view = (window: WindowView) => withPanes(window, windows.get(window.window));
    return { ...session, windows: session.windows.map(view) };
  });
}

function isSamePlace(one: PaneRow, other: PaneRow): boolean {
  return (
    one.session === other.session &&
    one.window === other.window &&
    one.view.pane === other.view.pane &&
    one.view.index === other.view.index
  );
}

function withPanes(window: WindowView, changed: ReadonlyMap<number, PaneView> | undefined) {
  if (changed === undefined) return window;
  return { ...window, panes: window.panes.map((pane) => changed.get(pane.pane) ?? pane) };
}
