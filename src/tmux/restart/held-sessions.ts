import type { HeldSession } from '../acts.ts';
import type { ServerView } from '../model.ts';
import { listedDescription } from './listed-description.ts';
import { decodeHex, type ServerDescription } from './server-description.ts';

/** What is lost if nothing brings it back: as it was asked just now, else as it was listed last. */
export function heldSessions(
  server: ServerView,
  asked: ServerDescription | undefined,
): readonly HeldSession[] | null {
  const { sessions, windows } = asked ?? listedDescription(server) ?? {};
  if (sessions === undefined || windows === undefined) return null;
  return sessions.map(({ name, path, links }) => ({
    name: decodeHex(name),
    directory: decodeHex(path),
    windows: links.length,
    panes: links.reduce((sum, { window }) => sum + (windows.get(window)?.panes.length ?? 0), 0),
  }));
}
