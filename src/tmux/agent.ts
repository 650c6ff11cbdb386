import type {
  AgentReport,
  AgentState,
  AgentView,
  PaneView,
  SessionView,
  WindowView,
} from './model.ts';

/**
 * Which agent is in a pane, and what it does. All of it is the member's own word.
 *
 * An agent is what runs in the foreground of a pane. What it says of itself (`@agent_state`) counts
 * more than what others can see, but not against facts: a report is of whoever made it, so it ends
 * with that program. It is not believed when the pane is back at its shell, when the program in the
 * foreground began after it, when its time can't be, or, without a time, when the program is none that
 * is known for an agent.
 *
 * What a hook of the agent told the service counts as much; of the two, what was said later.
 */
export interface AgentLook {
  /** When the look began; ms since the epoch. */
  readonly at: number;
  /** `#{start_time}` of the server, in seconds. */
  readonly serverStartTime: number | null;
  /** When something was last written, by pane and by window; seconds since the epoch. */
  readonly written: Written;
  /** What hooks reported, by pane. */
  readonly hooks?: ReadonlyMap<number, HookReport>;
}

/** As it was told, by our clock; ms since the epoch. */
export interface HookReport {
  readonly state: AgentState;
  readonly since: number;
  readonly at: number;
}

export interface Written {
  /** tmux 3.8 alone tells it of panes. */
  readonly byPane: ReadonlyMap<number, number>;
  readonly byWindow: ReadonlyMap<number, number>;
}

/** A working agent draws its spinner all the time: so long after it wrote it still counts as busy. */
const writingMs = 5_000;
/** Between the clock of whoever reports and ours lies no more. */
const skewSeconds = 2;

/** The agents of these panes as of that look, by pane. */
export function agentsOf(
  sessions: readonly SessionView[],
  look: AgentLook,
): ReadonlyMap<number, AgentView> {
  const agents = new Map<number, AgentView>();
  for (const { window, pane } of suspectsOf(sessions).panes) {
    const agent = agentOf(pane, window, look);
    if (agent !== null) agents.set(pane.pane, agent);
  }
  if (look.hooks?.size) addHooked(agents, sessions, look.hooks);
  return agents;
}

function addHooked(
  agents: Map<number, AgentView>,
  sessions: readonly SessionView[],
  hooks: ReadonlyMap<number, HookReport>,
): void {
  const windows = sessions.flatMap((session) => session.windows);
  for (const pane of windows.flatMap(({ panes }) => panes)) {
    const hook = hooks.get(pane.pane);
    if (hook === undefined || pane.dead) continue;
    const seen = agents.get(pane.pane);
    const saidLater = seen?.evidence === 'SELF_REPORT' && (pane.report?.at ?? 0) * 1_000 > hook.at;
    if (saidLater) continue;
    const { title, foreground, currentCommand } = pane;
    const known = seen?.kind ?? foreground?.agent ?? kindInTitle(title);
    agents.set(pane.pane, {
      kind: known ?? currentCommand ?? 'unknown',
      state: hook.state,
      since: new Date(hook.since),
      evidence: 'HOOK',
    });
  }
}

/** The same sessions with these agents in their panes. */
export function withAgents(
  sessions: readonly SessionView[],
  agents: ReadonlyMap<number, AgentView>,
): readonly SessionView[] {
  if (agents.size === 0) return sessions;
  const pane = (view: PaneView): PaneView => {
    const agent = agents.get(view.pane);
    return agent === undefined ? view : { ...view, agent };
  };
  const window = (view: WindowView): WindowView => {
    const any = view.panes.some((each) => agents.has(each.pane));
    return any ? { ...view, panes: view.panes.map(pane) } : view;
  };
  return sessions.map((session) => ({ ...session, windows: session.windows.map(window) }));
}

/** Null where some pane may hold an agent that nobody could see. */
export function workingAgents(
  sessions: readonly SessionView[],
  agents: ReadonlyMap<number, AgentView>,
): number | null {
  if (suspectsOf(sessions).someUnseen) return null;
  return [...agents.values()].filter(({ state }) => state === 'WORKING').length;
}

/** What in these panes decides about agents and holds as long as the panes are the same. */
interface Suspects {
  readonly panes: readonly { readonly window: WindowView; readonly pane: PaneView }[];
  /** Nobody could see what runs in the foreground of some pane. */
  readonly someUnseen: boolean;
}

/** Nearly all windows, and most listings, are the very same from look to look. */
const known = new WeakMap<WindowView | readonly SessionView[], Suspects>();

function suspectsOf(sessions: readonly SessionView[]): Suspects {
  let suspects = known.get(sessions);
  if (suspects === undefined) {
    const each = sessions.flatMap(({ windows }) => windows.map(suspectsIn));
    suspects = {
      panes: each.flatMap(({ panes }) => panes),
      someUnseen: each.some(({ someUnseen }) => someUnseen),
    };
    known.set(sessions, suspects);
  }
  return suspects;
}

function suspectsIn(window: WindowView): Suspects {
  let suspects = known.get(window);
  if (suspects === undefined) {
    suspects = {
      panes: window.panes.filter(mayBeAgent).map((pane) => ({ window, pane })),
      someUnseen: window.panes.some(({ dead, foreground }) => !dead && foreground === null),
    };
    known.set(window, suspects);
  }
  return suspects;
}

function mayBeAgent({ dead, foreground, report, title }: PaneView): boolean {
  if (dead || foreground?.isShell) return false;
  return report !== null || foreground?.agent != null || kindInTitle(title) !== null;
}

function agentOf(pane: PaneView, window: WindowView, look: AgentLook): AgentView | null {
  const { foreground, report, title, currentCommand } = pane;
  const named = foreground?.agent ?? null;
  const kind = named ?? kindInTitle(title);
  if (report !== null && isBelieved(report, named, look)) {
    const since = report.at === null ? null : new Date(report.at * 1_000);
    const { state } = report;
    return { kind: kind ?? currentCommand ?? 'unknown', state, since, evidence: 'SELF_REPORT' };
  }
  if (foreground === null || kind === null) return null;
  const wrote = lastWritten(pane, window, look.written);
  const quiet = wrote === null ? null : look.at - wrote * 1_000 > writingMs;
  const shown = stateInTitle(title);
  // A spinner that does not turn was left behind.
  if (shown !== null && !(shown === 'WORKING' && quiet)) {
    return { kind, state: shown, since: null, evidence: 'TITLE' };
  }
  if (quiet === false) return { kind, state: 'WORKING', since: null, evidence: 'OUTPUT' };
  return { kind, state: 'UNKNOWN', since: null, evidence: named === null ? 'TITLE' : 'PROCESS' };
}

function isBelieved(
  { at, isOfProgram }: AgentReport,
  named: string | null,
  { at: now, serverStartTime }: AgentLook,
): boolean {
  if (at === null) return named !== null;
  const seconds = Math.floor(now / 1_000);
  const inThisLife = serverStartTime === null || at >= serverStartTime - skewSeconds;
  return at <= seconds + skewSeconds && inThisLife && isOfProgram !== false;
}

function lastWritten(
  { pane }: PaneView,
  { window, panes }: WindowView,
  { byPane, byWindow }: Written,
): number | null {
  return byPane.get(pane) ?? (panes.length === 1 ? (byWindow.get(window) ?? null) : null);
}

/** Titles that tell which agent set them. */
function kindInTitle(title: string): string | null {
  if (/^✳ |^[\u2801-\u28ff✳] Claude Code\b/.test(title)) return 'claude';
  return /^(?:◇ +Ready|✋ +Action Required|✦ +Working)\b/.test(title) ? 'gemini' : null;
}

/** Spinners of braille dots are common; the rest are one agent's own signs. */
function stateInTitle(title: string): AgentState | null {
  if (/^(?:[\u2801-\u28ff]|✦ +Working)/.test(title)) return 'WORKING';
  if (/^✋ +Action Required/.test(title)) return 'WAITING';
  return /^◇ +Ready/.test(title) ? 'IDLE' : null;
}

/** `working:1767225600`, `waiting`, … as tools write it; anything else is no report. */
export function parseReport(text: string, lasting: string): AgentReport | null {
  const match = /^(working|waiting|idle)(?::(\d{1,12}))?$/.exec(text);
  const state = match && reportStates[match[1] ?? ''];
  if (!state) return null;
  return {
    state,
    at: match[2] === undefined ? null : Number(match[2]),
    isOfProgram: lasting === '' ? null : lasting === '1',
  };
}

const reportStates: Readonly<Record<string, AgentState>> = {
  working: 'WORKING',
  waiting: 'WAITING',
  idle: 'IDLE',
};
