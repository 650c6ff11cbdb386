import type { ServerView, WindowView } from '../model.ts';
import { parseLayout } from './layout.ts';
import { LayoutError } from './layout-cells.ts';
import type { DescribedSession, DescribedWindow, ServerDescription } from './server-description.ts';

/**
 * What can be made again of a server that can't be asked any more, from its last listing: sessions,
 * windows and panes, but no options, no environment, no zoom and no session groups. Undefined
 * when nothing was ever listed.
 */
export function listedDescription(server: ServerView): ServerDescription | undefined {
  if (server.sessions === null) return undefined;
  const windows = new Map<number, DescribedWindow>();
  const processes = [];
  const sessions: DescribedSession[] = [];
  for (const session of server.sessions) {
    for (const window of session.windows) {
      if (windows.has(window.window)) continue;
      windows.set(window.window, listedWindow(window));
      for (const { pane, pid, currentCommand } of window.panes) {
        if (pid !== null && currentCommand !== null) {
          processes.push({ pane, pid, ticks: '', command: hex(currentCommand) });
        }
      }
    }
    const first = session.windows[0];
    sessions.push({
      session: session.session,
      group: '',
      name: hex(session.name),
      path: hex(first?.panes[0]?.currentPath ?? ''),
      ...(first === undefined ? { columns: 80, rows: 24 } : sizeOf(first)),
      options: [],
      environment: [],
      links: session.windows.map(({ window, index, active }) => ({
        window,
        index,
        active,
        last: false,
      })),
    });
  }
  return { options: null, environment: null, sessions, windows, processes };
}

function listedWindow(window: WindowView): DescribedWindow {
  return {
    window: window.window,
    name: hex(window.name),
    // A fixed name would hide for good what its program is called; tmux finds a better one itself.
    automaticRename: window.panes.some(({ currentCommand }) => currentCommand === window.name),
    zoomed: false,
    layout: window.layout,
    options: [],
    panes: window.panes.map((pane) => ({
      pane: pane.pane,
      index: pane.index,
      active: pane.active,
      title: hex(pane.title),
      path: hex(pane.currentPath ?? ''),
      columns: pane.columns,
      rows: pane.rows,
      pid: pane.pid,
      dead: pane.dead,
      options: [],
    })),
  };
}

function sizeOf(window: WindowView): { readonly columns: number; readonly rows: number } {
  try {
    const { columns, rows } = parseLayout(window.layout).root;
    return { columns, rows };
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    return { columns: 80, rows: 24 };
  }
}

function hex(text: string): string {
  return Buffer.from(text, 'utf8').toString('hex');
}
