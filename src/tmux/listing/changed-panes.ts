import { isDeepStrictEqual } from 'node:util';
import type { PaneView, SessionView, WindowView } from '../model.ts';
import type { PaneParser, PanePlace } from './session-rows.ts';

/**
 * The sessions of a look whose lines differ from those of the look before in panes alone that stayed
 * where they were: a title, a command, a directory, as most looks do. These lines are parsed, and
 * everything else stays the very same object. Undefined where more has changed.
 * @param lines those that differ; each pane has one line
 */
export function withChangedPanes(
  sessions: readonly SessionView[],
  lines: readonly (readonly [before: string, after: string])[],
  parser: PaneParser,
): readonly SessionView[] | undefined {
  const changed = new Map<number, Map<number, Map<number, PaneView>>>();
  for (const [before, after] of lines) {
    const [place, row] = [parser.place(before), parser.row(after)];
    if (place === undefined || row === undefined || !isSamePlace(place, row)) return undefined;
    const view = paneAt(sessions, place);
    if (view === undefined) return undefined;
    if (isDeepStrictEqual(view, row.view)) continue;
    const windows = changed.get(row.session) ?? new Map<number, Map<number, PaneView>>();
    changed.set(row.session, windows);
    const panes = windows.get(row.window) ?? new Map<number, PaneView>();
    windows.set(row.window, panes.set(row.pane, row.view));
  }
  if (changed.size === 0) return sessions;
  return sessions.map((session) => {
    const windows = changed.get(session.session);
    if (windows === undefined) return session;
    const view = (window: WindowView) => withPanes(window, windows.get(window.window));
    return { ...session, windows: session.windows.map(view) };
  });
}

function isSamePlace(one: PanePlace, other: PanePlace): boolean {
  return (
    one.session === other.session &&
    one.window === other.window &&
    one.pane === other.pane &&
    one.index === other.index
  );
}

function paneAt(sessions: readonly SessionView[], at: PanePlace): PaneView | undefined {
  const session = sessions.find((each) => each.session === at.session);
  const window = session?.windows.find((each) => each.window === at.window);
  return window?.panes.find(({ pane }) => pane === at.pane);
}

function withPanes(window: WindowView, changed: ReadonlyMap<number, PaneView> | undefined) {
  if (changed === undefined) return window;
  return { ...window, panes: window.panes.map((pane) => changed.get(pane.pane) ?? pane) };
}
