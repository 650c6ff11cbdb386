import { describe, expect, it } from 'vitest';
import { idleness, isIdle } from '../../src/tmux/idle.ts';
import type { PaneView, ServerView, SessionView } from '../../src/tmux/model.ts';
import { server, session, status } from '../support/synthetic-fleet.ts';

const now = new Date('2026-11-29T12:00:00.000Z');
const secondsAgo = (seconds: number) => new Date(now.getTime() - seconds * 1_000);
const idleAfterMs = 600_000;

/** One quiet server whose panes are shells at their prompts, but for what a test says. */
function quiet(over: Partial<ServerView> = {}, ...panes: readonly Partial<PaneView>[]): ServerView {
  const sessions = (panes.length === 0 ? [{}] : panes).map((each, number) => paneIn(number, each));
  return server('alice', 1, {
    attachedClients: 0,
    sessions,
    activity: sessions.map(({ session: window }) => ({ window, at: secondsAgo(3_600) })),
    ...over,
  });
}

function paneIn(number: number, over: Partial<PaneView>): SessionView {
  const made = session(number);
  const windows = made.windows.map((window) => ({
    ...window,
    panes: window.panes.map((pane) => ({ ...pane, ...over })),
  }));
  return { ...made, windows };
}

const shell = { isShell: true, agent: null, job: null };
const program = { isShell: false, agent: null, job: null };
const claude = { isShell: false, agent: 'claude', job: null };
const idleAgent = (seconds: number) => ({
  kind: 'claude',
  state: 'IDLE' as const,
  since: secondsAgo(seconds),
  evidence: 'SELF_REPORT' as const,
});

describe('a server is idle', () => {
  it('when nobody is attached, nothing was written for long, and its panes are shells at rest', () => {
    const { idle, evidence } = idleness(quiet({}, {}, {}), now, idleAfterMs);
    expect(idle).toBe(true);
    expect(evidence).toEqual([
      'nobody is attached',
      'nothing was written for 60 min',
      '2 panes are at a shell prompt',
    ]);
  });

  it('when it says itself that it has no sessions', () => {
    expect(isIdle(quiet({ sessions: [], activity: [] }), now, idleAfterMs)).toBe(true);
  });

  it('when an agent says since a minute that it is idle', () => {
    const agent = { foreground: claude, agent: idleAgent(61) };
    expect(isIdle(quiet({}, agent), now, idleAfterMs)).toBe(true);
  });

  it('when the program of a pane has ended and the pane was kept', () => {
    expect(isIdle(quiet({}, { dead: true, foreground: null }), now, idleAfterMs)).toBe(true);
  });
});

describe('a server is busy', () => {
  it.each<[string, ServerView, string]>([
    [
      'while somebody is attached',
      quiet({ attachedClients: 2, sessions: [{ ...session(0), attachedClients: 2 }] }),
      '2 clients are attached to session $0',
    ],
    [
      'while a client is there without a session',
      quiet({ attachedClients: 1 }),
      'a client is attached',
    ],
    [
      'when something was written of late',
      quiet({ activity: [{ window: 0, at: secondsAgo(599) }] }),
      '%0: something was written 9 min ago',
    ],
    [
      'when it was written in the second that is not over for sure',
      quiet({ activity: [{ window: 0, at: secondsAgo(600) }] }),
      '%0: something was written 10 min ago',
    ],
    [
      'when something was written after the look began, or the clock was set back',
      quiet({ activity: [{ window: 0, at: secondsAgo(-5) }] }),
      '%0: something was written just now',
    ],
    [
      'while a program runs',
      quiet({}, { foreground: program, currentCommand: 'vim' }),
      '%0: vim runs in the foreground',
    ],
    [
      'while a shell has a job, also a suspended one',
      quiet({}, {}, { pane: 7, foreground: { ...shell, job: 'make' } }),
      '%7: make is at work or suspended in it',
    ],
    [
      'while an agent runs that does not say what it does',
      quiet(
        {},
        {
          foreground: claude,
          agent: { kind: 'claude', state: 'UNKNOWN', since: null, evidence: 'PROCESS' },
        },
      ),
      '%0: claude runs in the foreground',
    ],
    [
      'while only the title of an agent says that it is idle',
      quiet(
        {},
        { foreground: claude, agent: { ...idleAgent(3_600), kind: 'gemini', evidence: 'TITLE' } },
      ),
      '%0: gemini runs in the foreground',
    ],
    [
      'while an agent says that it works or waits',
      quiet({}, { foreground: claude, agent: { ...idleAgent(3_600), state: 'WAITING' } }),
      '%0: claude says that it is WAITING',
    ],
    [
      'while an agent is idle for less than a minute',
      quiet({}, { foreground: claude, agent: idleAgent(60) }),
      '%0: claude says that it is IDLE, for 60 s only',
    ],
    [
      'while an idle agent does not say since when',
      quiet({}, { foreground: claude, agent: { ...idleAgent(61), since: null } }),
      '%0: claude says that it is IDLE, but not since when',
    ],
    [
      'while something else runs behind an idle agent',
      quiet({}, { foreground: { ...claude, job: 'make' }, agent: idleAgent(3_600) }),
      '%0: make is at work or suspended in it',
    ],
  ])('%s', (_, busy, evidence) => {
    expect(idleness(busy, now, idleAfterMs)).toEqual({ idle: false, evidence: [evidence] });
    expect(isIdle(busy, now, idleAfterMs)).toBe(false);
  });

  it('as soon as one pane is, whatever is not known of the others', () => {
    const some = quiet({}, { foreground: null }, { pane: 1, foreground: program });
    expect(idleness(some, now, idleAfterMs)).toMatchObject({ idle: false });
  });

  it('with eight sentences at most, each safe for one line', () => {
    const many = Array.from({ length: 50 }, (_, pane) => ({
      pane,
      foreground: program,
      currentCommand: 'a\nb\u001b[31m\u202e',
    }));
    const { evidence } = idleness(quiet({}, ...many), now, idleAfterMs);
    expect(evidence).toHaveLength(8);
    expect(evidence[0]).toBe('%0: a\\nb\\x1b[31m\\u202e runs in the foreground');
  });

  it('by a pane that is linked into two sessions once', () => {
    const linked = paneIn(0, { foreground: program, currentCommand: 'vim' });
    const twice = quiet({ sessions: [linked, { ...linked, session: 1 }] });
    expect(idleness(twice, now, idleAfterMs).evidence).toHaveLength(1);
  });
});

describe('whether a server is idle is not known', () => {
  it.each<[string, ServerView, string]>([
    ['when it is stopped', quiet({ status: 'STOPPED' }), 'the tmux server is STOPPED'],
    ['when nobody listens', quiet({ status: 'ABSENT' }), 'the tmux server is ABSENT'],
    [
      'when its rows are old',
      quiet({ listing: status({ state: 'STALE' }) }),
      'its listing is STALE',
    ],
    [
      'when it has none',
      quiet({ sessions: null, listing: status({ state: 'UNKNOWN' }) }),
      'its listing is UNKNOWN',
    ],
    [
      'when rows were left out',
      quiet({ listing: status({ reason: 'MALFORMED_ANSWER', detail: '2 rows are left out' }) }),
      'not all of it could be seen: 2 rows are left out',
    ],
    [
      'when its clients are not known',
      quiet({ attachedClients: null }),
      'who is attached is not known',
    ],
    [
      'when it does not tell when it wrote',
      quiet({ activity: [] }),
      '%0: when it wrote last is not known',
    ],
    [
      'when the processes of a pane can not be seen',
      quiet({}, {}, { pane: 1, foreground: null }),
      '%1: what runs in it is not known',
    ],
  ])('%s', (_, unknown, evidence) => {
    const { idle, evidence: said } = idleness(unknown, now, idleAfterMs);
    expect(idle).toBeNull();
    expect(said).toEqual([evidence]);
    expect(isIdle(unknown, now, idleAfterMs)).toBeNull();
  });

  it('when old rows show it busy: they are old', () => {
    const old = quiet({ attachedClients: 3, listing: status({ state: 'STALE' }) });
    expect(isIdle(old, now, idleAfterMs)).toBeNull();
  });
});
