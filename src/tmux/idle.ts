import { escapeText } from '../escape.ts';
import type { PaneView, ServerView, WindowView } from './model.ts';

/**
 * Whether nobody would miss anything if a server ended now.
 *
 * - true: proved. Nobody but us is attached, nothing was written for `idleAfterMs`, and each pane is a
 *   shell at its prompt without children, an agent that itself says since a minute or more that it
 *   is idle, or dead: nothing runs in it.
 * - false: proved busy; the evidence names what is in the way.
 * - null: not known. What was seen is old, or not all of it could be seen, and what could be is idle.
 *
 * `now` is the moment that is spoken of: for a listing, that of the look. Time that has passed since
 * a look proves nothing, for nobody has looked.
 */
export interface Idleness {
  readonly idle: boolean | null;
  /** Sentences; they name panes as tmux does. The first few, where there are many. */
  readonly evidence: readonly string[];
}

/** Of a server that is listed; `idle` itself is made of the rest. */
export type ListedServer = Omit<ServerView, 'idle'>;

const mostEvidence = 8;
const agentIdleMs = 60_000;
/** tmux and reports tell whole seconds: what is told as of a second may be as late as its end. */
const grainMs = 1_000;

export function idleness(server: ListedServer, now: Date, idleAfterMs: number): Idleness {
  const stale = unseen(server);
  if (stale !== undefined) return { idle: null, evidence: [stale] };
  const look = lookAt(server, now, idleAfterMs);
  const busy = firstOf(inTheWay(look));
  if (busy.length > 0) return { idle: false, evidence: busy };
  const unknown = firstOf(notKnown(look));
  if (unknown.length > 0) return { idle: null, evidence: unknown };
  return { idle: true, evidence: proof(look) };
}

/** The same without the sentences. */
export function isIdle(server: ListedServer, now: Date, idleAfterMs: number): boolean | null {
  if (unseen(server) !== undefined) return null;
  const look = lookAt(server, now, idleAfterMs);
  if (!inTheWay(look).next().done) return false;
  return notKnown(look).next().done ? true : null;
}

interface Look {
  readonly server: ListedServer;
  /** Each once, however often it is linked. */
  readonly windows: readonly WindowView[];
  readonly now: number;
  readonly idleAfterMs: number;
}

function lookAt(server: ListedServer, now: Date, idleAfterMs: number): Look {
  const windows = new Map<number, WindowView>();
  for (const session of server.sessions ?? [])
    for (const window of session.windows) windows.set(window.window, window);
  return { server, windows: [...windows.values()], now: now.getTime(), idleAfterMs };
}

function unseen({ status, listing, sessions }: ListedServer): string | undefined {
  if (status !== 'RUNNING') return `the tmux server is ${status}`;
  if (listing.state !== 'FRESH' || sessions === null) return `its listing is ${listing.state}`;
  return undefined;
}

function* inTheWay({ server, windows, now, idleAfterMs }: Look): Generator<string, undefined> {
  for (const { session, attachedClients } of server.sessions ?? []) {
    if (attachedClients)
      yield `${count(attachedClients, 'client')} attached to session $${session}`;
  }
  if (server.attachedClients && !server.sessions?.some((session) => session.attachedClients)) {
    yield `${count(server.attachedClients, 'client')} attached`;
  }
  const last = new Map(server.activity.map(({ window, at }) => [window, at]));
  for (const window of windows) {
    const at = last.get(window.window);
    if (at === undefined || now - at.getTime() - grainMs >= idleAfterMs) continue;
    yield `${panesOf(window)}: something was written ${ago(now - at.getTime())}`;
  }
  for (const pane of panesInUse(windows)) {
    const reason = occupation(pane, now);
    if (reason !== undefined) yield `%${pane.pane}: ${reason}`;
  }
}

/** What the pane does; undefined: nothing, or not known. */
function occupation({ foreground, agent, currentCommand }: PaneView, now: number) {
  if (foreground === null) return undefined;
  if (foreground.job !== null) return `${escapeText(foreground.job)} is at work or suspended in it`;
  if (foreground.isShell) return undefined;
  const program = escapeText(agent?.kind ?? currentCommand ?? 'a program');
  if (agent?.evidence !== 'SELF_REPORT' && agent?.evidence !== 'HOOK')
    return `${program} runs in the foreground`;
  const { state, since } = agent;
  if (state !== 'IDLE') return `${program} says that it is ${state}`;
  if (since === null) return `${program} says that it is IDLE, but not since when`;
  const ms = now - since.getTime();
  return ms - grainMs < agentIdleMs
    ? `${program} says that it is IDLE, for ${length(ms)} only`
    : undefined;
}

function* notKnown({ server, windows }: Look): Generator<string, undefined> {
  if (server.listing.reason !== null) {
    yield `not all of it could be seen: ${escapeText(server.listing.detail ?? server.listing.reason)}`;
  }
  if (server.attachedClients === null) yield 'who is attached is not known';
  const seen = new Set(server.activity.map(({ window }) => window));
  for (const window of windows) {
    if (!seen.has(window.window)) yield `${panesOf(window)}: when it wrote last is not known`;
  }
  for (const pane of panesInUse(windows)) {
    if (pane.foreground === null) yield `%${pane.pane}: what runs in it is not known`;
  }
}

function proof({ server, windows, now }: Look): readonly string[] {
  const panes = windows.flatMap(livePanes);
  const shells = panes.filter(({ foreground }) => foreground?.isShell).length;
  const last = Math.max(...server.activity.map(({ at }) => at.getTime()));
  return [
    'nobody is attached',
    ...(Number.isFinite(last) ? [`nothing was written for ${length(now - last)}`] : []),
    ...(shells > 0
      ? [`${shells} ${shells === 1 ? 'pane is' : 'panes are'} at a shell prompt`]
      : []),
    ...panes
      .filter(({ foreground }) => foreground?.isShell === false)
      .map(({ pane, agent }) => `%${pane}: ${escapeText(agent?.kind ?? '')} says that it is IDLE`),
  ].slice(0, mostEvidence);
}

function firstOf(sentences: Generator<string, undefined>): readonly string[] {
  return [...sentences.take(mostEvidence)];
}

function livePanes({ panes }: WindowView): readonly PaneView[] {
  return panes.filter(({ dead }) => !dead);
}

/** Those that something may run in, or that could not be seen. */
function panesInUse(windows: readonly WindowView[]): readonly PaneView[] {
  return windows.filter((window) => !isAtRest(window)).flatMap(livePanes);
}

/** Nearly all windows are the very same from look to look. */
const atRest = new WeakMap<WindowView, boolean>();

/** Each of its panes is dead, or a shell at its prompt with nothing beside it. */
function isAtRest(window: WindowView): boolean {
  let rests = atRest.get(window);
  if (rests === undefined) {
    rests = window.panes.every(
      ({ dead, foreground }) => dead || (foreground?.isShell && foreground.job === null),
    );
    atRest.set(window, rests);
  }
  return rests;
}

function panesOf({ panes }: WindowView): string {
  return panes.map(({ pane }) => `%${pane}`).join(' ');
}

function count(number: number, what: string): string {
  return number === 1 ? `a ${what} is` : `${number} ${what}s are`;
}

function ago(ms: number): string {
  return ms < grainMs ? 'just now' : `${length(ms)} ago`;
}

function length(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7_200 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3_600)} h`;
}
