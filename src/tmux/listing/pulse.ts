import { isDeepStrictEqual } from 'node:util';
import { type AgentLook, agentsOf, type Written, withAgents } from '../agent.ts';
import type { AgentView, SessionView, WindowActivity } from '../model.ts';
import { parseWritten } from './session-rows.ts';

/**
 * What of a look differs with its time, or whenever something is written: when that was, and what
 * agents do. The sessions are the very same object as long as no agent in them changed, so what
 * changes nothing for a reader wakes nobody.
 */
export interface Pulse {
  readonly text: string;
  readonly written: Written;
  readonly activity: readonly WindowActivity[];
  /** What it was made of: rows without agents. */
  readonly listed: readonly SessionView[];
  readonly agents: ReadonlyMap<number, AgentView>;
  readonly sessions: readonly SessionView[];
}

export const noPulse: Pulse = {
  text: '',
  written: { byPane: new Map(), byWindow: new Map() },
  activity: [],
  listed: [],
  agents: new Map(),
  sessions: [],
};

export function pulseOf(
  text: string,
  listed: readonly SessionView[],
  look: Omit<AgentLook, 'written'>,
  last: Pulse,
): Pulse {
  const { written, activity } = last.text === text ? last : told(text);
  const agents = agentsOf(listed, { ...look, written });
  const same = listed === last.listed && isDeepStrictEqual(agents, last.agents);
  return {
    text,
    written,
    activity,
    listed,
    agents: same ? last.agents : agents,
    sessions: same ? last.sessions : withAgents(listed, agents),
  };
}

function told(text: string): Pick<Pulse, 'written' | 'activity'> {
  const written = parseWritten(text);
  const activity = [...written.byWindow].map(([window, seconds]) => ({
    window,
    at: new Date(seconds * 1_000),
  }));
  return { written, activity };
}
