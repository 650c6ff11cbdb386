import { parseLayout } from '../../src/tmux/restart/layout.ts';
import { emitLayout, type LayoutCell } from '../../src/tmux/restart/layout-cells.ts';
import type { TmuxClient } from './tmux-client.ts';

/**
 * Everything in a tmux server that a restart is to keep, as its own client tells, in one value to
 * compare: without ids, process ids and times, and layouts in the old form.
 */
export interface ServerContents {
  readonly sessions: readonly string[];
  readonly windows: readonly string[];
  readonly panes: readonly string[];
  readonly options: Readonly<Record<string, readonly string[]>>;
  readonly environment: Readonly<Record<string, readonly string[]>>;
}

export async function contentsOf(server: Pick<TmuxClient, 'run'>): Promise<ServerContents> {
  const lines = async (...command: string[]) => (await server.run(...command)).split('\n');
  const sessions = await lines(
    'list-sessions',
    '-F',
    '#{session_name}|#{session_path}|#{session_group}',
  );
  const ids = await lines('list-sessions', '-F', '#{session_id}');
  const windows = (
    await lines(
      'list-windows',
      '-a',
      '-F',
      '#{session_name}|#{window_index}|#{window_name}|#{window_active}#{window_last_flag}#{window_zoomed_flag}|#{window_layout}',
    )
  ).map((line) => {
    const at = line.lastIndexOf('|', line.includes('|{"V"') ? line.indexOf('|{"V"') : undefined);
    return `${line.slice(0, at)}|${emitLayout(withoutIds(parseLayout(line.slice(at + 1)).root))}`;
  });
  const panes = await lines(
    'list-panes',
    '-a',
    '-F',
    '#{session_name}|#{window_index}|#{pane_index}|#{pane_width}x#{pane_height},#{pane_left},#{pane_top}|#{pane_active}|#{pane_title}|#{pane_current_path}',
  );
  const options: Record<string, readonly string[]> = {
    server: await lines('show-options', '-s'),
    'global-session': await lines('show-options', '-g'),
    'global-window': await lines('show-options', '-gw'),
    hooks: (await lines('show-options', '-gH')).filter((line) => line.includes('[')),
  };
  const environment: Record<string, readonly string[]> = {
    global: await lines('show-environment', '-g'),
  };
  for (const [at, id] of ids.entries()) {
    const name = sessions[at]?.split('|')[0] ?? '';
    options[`session ${name}`] = await lines('show-options', '-t', id);
    environment[`session ${name}`] = await lines('show-environment', '-t', id);
  }
  const places = await lines('list-windows', '-a', '-F', '#{session_id}:#{window_index}');
  for (const [at, place] of places.entries()) {
    options[`window ${at}`] = await lines('show-options', '-w', '-t', place);
  }
  return { sessions, windows, panes, options, environment };
}

function withoutIds(cell: LayoutCell): LayoutCell {
  return cell.kind === 'pane'
    ? { ...cell, pane: null }
    : { ...cell, children: cell.children.map(withoutIds) };
}
