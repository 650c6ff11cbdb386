import { describe, expect, it } from 'vitest';
import { agentsOf, parseReport, withAgents, workingAgents } from '../../src/tmux/agent.ts';
import type { AgentReport, PaneView, SessionView } from '../../src/tmux/model.ts';
import { session } from '../support/synthetic-fleet.ts';

const start = 1_767_225_600;
/** Of a server that runs for an hour. */
const now = start + 3_600;
const shell = { isShell: true, agent: null, job: null };
const vim = { isShell: false, agent: null, job: null };
const claude = { isShell: false, agent: 'claude', job: null };

interface Seen extends Partial<PaneView> {
  /** How long ago it wrote, in seconds; not given: not known. */
  readonly wrote?: number;
}

function agentIn({ wrote, ...pane }: Seen) {
  const written = wrote === undefined ? [] : [[0, now - wrote] as const];
  const look = { byPane: new Map(written), byWindow: new Map<number, number>() };
  const sessions = sessionsOf(pane);
  return (
    agentsOf(sessions, { at: now * 1_000, serverStartTime: start, written: look }).get(0) ?? null
  );
}

function sessionsOf(...panes: readonly Partial<PaneView>[]): readonly SessionView[] {
  const made = session(0);
  return [
    {
      ...made,
      windows: made.windows.map((window) => ({
        ...window,
        panes: panes.flatMap((each, pane) =>
          window.panes.map((one) => ({ ...one, pane, ...each })),
        ),
      })),
    },
  ];
}

const report = (text: string, lasting = '1') => ({ report: parseReport(text, lasting) });

describe('a report', () => {
  it.each<[string, AgentReport | null]>([
    ['working:1767225600', { state: 'WORKING', at: start, isOfProgram: true }],
    ['waiting:1', { state: 'WAITING', at: 1, isOfProgram: true }],
    ['idle', { state: 'IDLE', at: null, isOfProgram: true }],
  ])('%j is read', (text, expected) => {
    expect(parseReport(text, '1')).toEqual(expected);
  });

  it.each([
    '',
    'Working',
    'busy:1',
    'working:',
    'working: 1',
    'working:-1',
    'working:1e9',
    'working:1.5',
    'working:1:2',
    ' idle',
    'idle\n',
    `working:${'9'.repeat(13)}`,
    '#(touch hit)',
    'working:１',
  ])('%j is none', (text) => {
    expect(parseReport(text, '1')).toBeNull();
  });
});

describe('an agent', () => {
  it('is what it says itself, since when it says', () => {
    expect(
      agentIn({ foreground: claude, ...report(`waiting:${now - 60}`), title: '⠂ x', wrote: 0 }),
    ).toEqual({
      kind: 'claude',
      state: 'WAITING',
      since: new Date((now - 60) * 1_000),
      evidence: 'SELF_REPORT',
    });
  });

  it('in no list has the name of its program', () => {
    expect(
      agentIn({ foreground: vim, currentCommand: 'my-agent', ...report(`working:${now}`) }),
    ).toMatchObject({ kind: 'my-agent', state: 'WORKING', evidence: 'SELF_REPORT' });
  });

  it('that only runs is in a state that nobody knows', () => {
    const ran = { kind: 'claude', state: 'UNKNOWN', since: null, evidence: 'PROCESS' };
    expect(agentIn({ foreground: claude })).toEqual(ran);
    expect(agentIn({ foreground: claude, wrote: 6 })).toEqual(ran);
  });

  it('that wrote a moment ago works', () => {
    expect(agentIn({ foreground: claude, wrote: 5 })).toMatchObject({
      state: 'WORKING',
      evidence: 'OUTPUT',
    });
  });

  it.each([
    ['⠹ building', 'WORKING'],
    ['✦  Working… (repo)', 'WORKING'],
    ['✋  Action Required (repo)', 'WAITING'],
    ['◇  Ready (repo)', 'IDLE'],
  ])('with the title %j is %s', (title, state) => {
    const agent = agentIn({ foreground: claude, title, wrote: 0 });
    expect(agent).toMatchObject({ state, evidence: 'TITLE' });
  });

  it('whose spinner stands still has left it behind', () => {
    expect(agentIn({ foreground: claude, title: '⠹ building', wrote: 60 })).toMatchObject({
      state: 'UNKNOWN',
      evidence: 'PROCESS',
    });
  });

  it('behind another program is known by a title of its own, never in a shell', () => {
    const title = '✳ Claude Code';
    expect(agentIn({ foreground: vim, title, wrote: 60 })).toMatchObject({
      kind: 'claude',
      state: 'UNKNOWN',
      evidence: 'TITLE',
    });
    expect(agentIn({ foreground: shell, title, wrote: 0 })).toBeNull();
    expect(agentIn({ foreground: null, title, wrote: 0 })).toBeNull();
    expect(agentIn({ foreground: vim, title: '⠹ npm install', wrote: 0 })).toBeNull();
  });

  it('writes in a window of its own, or tmux says which pane wrote', () => {
    const look = (byPane: readonly (readonly [number, number])[]) => ({
      at: now * 1_000,
      serverStartTime: start,
      written: { byPane: new Map(byPane), byWindow: new Map([[0, now]]) },
    });
    const one = sessionsOf({ foreground: claude });
    const two = sessionsOf({ foreground: claude }, { foreground: vim });
    expect(agentsOf(one, look([])).get(0)).toMatchObject({ evidence: 'OUTPUT' });
    expect(agentsOf(two, look([])).get(0)).toMatchObject({ evidence: 'PROCESS' });
    expect(agentsOf(two, look([[0, now]])).get(0)).toMatchObject({ evidence: 'OUTPUT' });
    expect(agentsOf(two, look([[0, now - 60]])).get(0)).toMatchObject({ evidence: 'PROCESS' });
  });
});

describe('a report is not believed', () => {
  it.each<[string, Seen]>([
    ['in a shell at its prompt', { foreground: shell, ...report(`working:${now - 1}`) }],
    ['in a shell with jobs', { foreground: { ...shell, job: 'claude' }, ...report('working') }],
    ['in a dead pane', { foreground: vim, dead: true, ...report(`working:${now - 1}`) }],
    ['of a program that was there before', { foreground: vim, ...report(`working:${now}`, '0') }],
    ['from the future', { foreground: vim, ...report(`working:${now + 3}`) }],
    ['in milliseconds', { foreground: vim, ...report(`working:${start}000`.slice(0, 20)) }],
    ['of an earlier life of the server', { foreground: vim, ...report(`idle:${start - 3}`) }],
    ['without a time, of a program in no list', { foreground: vim, ...report('working') }],
    ['without a time, of a program that nobody sees', { foreground: null, ...report('working') }],
  ])('%s', (_, seen) => {
    expect(agentIn(seen)).toBeNull();
  });

  it('against what can be seen: then that counts', () => {
    const stale = { foreground: claude, ...report(`idle:${now - 600}`, '0') };
    expect(agentIn({ ...stale, wrote: 0 })).toMatchObject({ state: 'WORKING', evidence: 'OUTPUT' });
  });

  it('but between clocks lie two seconds', () => {
    for (const at of [now + 2, start - 2])
      expect(agentIn({ foreground: vim, ...report(`working:${at}`) })).not.toBeNull();
  });

  it('but where processes can not be seen it is not contradicted', () => {
    expect(agentIn({ foreground: null, ...report(`working:${now}`, '') })).toMatchObject({
      state: 'WORKING',
    });
  });
});

describe('the agents of a server', () => {
  const working = { foreground: claude, ...report(`working:${now}`) };
  const look = {
    at: now * 1_000,
    serverStartTime: start,
    written: { byPane: new Map(), byWindow: new Map() },
  };

  it('that work are counted, each once, also in a linked window', () => {
    const [one] = sessionsOf(working, { foreground: shell }, working);
    if (one === undefined) throw new Error('there is one');
    const linked = [one, { ...one, session: 1 }];
    expect(workingAgents(linked, agentsOf(linked, look))).toBe(2);
  });

  it('are not known where what runs in a living pane is not', () => {
    const seen = (foreground: null, dead: boolean) => {
      const sessions = sessionsOf(working, { foreground, dead });
      return workingAgents(sessions, agentsOf(sessions, look));
    };
    expect(seen(null, false)).toBeNull();
    expect(seen(null, true)).toBe(1);
  });

  it('stand in their panes', () => {
    const sessions = sessionsOf(working, { foreground: shell });
    const panes = withAgents(sessions, agentsOf(sessions, look))[0]?.windows[0]?.panes;
    expect(panes?.map(({ agent }) => agent?.state ?? null)).toEqual(['WORKING', null]);
  });
});
