import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AgentState, PaneView, SessionView } from '../../src/tmux/model.ts';
import { listing, server, session, status } from '../support/synthetic-fleet.ts';
import { type Service, startService } from '../support/synthetic-service.ts';

let service: Service;
beforeEach(async () => {
  service = await startService();
});
afterEach(() => service[Symbol.asyncDispose]());

const since = new Date('2026-11-29T07:59:00.000Z');
const claude = { isShell: false, agent: 'claude', job: null };

/** A session of one pane with that number, with an agent in that state. */
function paneOf(
  number: number,
  state: AgentState | null,
  over: Partial<PaneView> = {},
): SessionView {
  const made = session(number);
  const agent =
    state === null ? null : { kind: 'claude', state, since, evidence: 'SELF_REPORT' as const };
  const windows = made.windows.map((window) => ({
    ...window,
    panes: window.panes.map((pane) => ({
      ...pane,
      agent,
      foreground: agent ? claude : pane.foreground,
      ...over,
    })),
  }));
  return { ...made, windows };
}

/** ann: busy, idle, not known, nobody there; ben: nobody could look. */
function members() {
  const ann = service.accounts.add('ann', 'ADMIN');
  const ben = service.accounts.add('ben', 'DEVELOPER');
  const cat = service.accounts.add('cat', 'DEVELOPER');
  service.fleet.set(
    listing(ann.id, [
      server(ann.id, 1, {
        idle: false,
        workingAgents: 2,
        sessions: [
          paneOf(0, 'WORKING'),
          paneOf(1, 'WAITING'),
          paneOf(2, 'WORKING'),
          paneOf(3, null),
        ],
      }),
      server(ann.id, 2, { idle: true, workingAgents: 0, sessions: [paneOf(0, 'IDLE')] }),
      server(ann.id, 4, { status: 'ABSENT', idle: null, workingAgents: 0, sessions: [] }),
    ]),
  );
  const unseen = { foreground: null, currentCommand: 'hidden' };
  service.fleet.set(
    listing(cat.id, [
      server(cat.id, 3, {
        idle: null,
        workingAgents: null,
        sessions: [paneOf(0, 'WORKING'), paneOf(1, null, unseen)],
      }),
    ]),
  );
  service.fleet.set(listing(ben.id, null, { state: 'UNKNOWN' }));
  return { ann, ben, cat };
}

describe('agents and idleness', () => {
  it('are told of panes, servers and members, and unknown is never a number', async () => {
    members();
    const { data } = await service.query<Record<string, unknown>>(
      'ann',
      `{ members { nodes { login workingAgents tmuxServers { idle workingAgents
           sessions { windows { panes { agent { kind state since evidence observedAt } } } } } } } }`,
    );
    const observedAt = '2026-11-29T08:00:00.000Z';
    const pane = (state: string | null) => ({
      windows: [
        {
          panes: [
            {
              agent: state && {
                kind: 'claude',
                state,
                since: since.toISOString(),
                evidence: 'SELF_REPORT',
                observedAt,
              },
            },
          ],
        },
      ],
    });
    expect(data?.members).toEqual({
      nodes: [
        {
          login: 'ann',
          workingAgents: 2,
          tmuxServers: [
            {
              idle: false,
              workingAgents: 2,
              sessions: [pane('WORKING'), pane('WAITING'), pane('WORKING'), pane(null)],
            },
            { idle: true, workingAgents: 0, sessions: [pane('IDLE')] },
            { idle: null, workingAgents: 0, sessions: [] },
          ],
        },
        { login: 'ben', workingAgents: null, tmuxServers: null },
        {
          login: 'cat',
          workingAgents: null,
          tmuxServers: [
            { idle: null, workingAgents: null, sessions: [pane('WORKING'), pane(null)] },
          ],
        },
      ],
    });
  });

  it('filter servers, which are complete only where it is known of each of them', async () => {
    const { ann } = members();
    const { data } = await service.query<Record<string, unknown>>(
      'ann',
      `query($ann: [ID!]) {
         idle: tmuxServers(filter: { idle: true }) { complete nodes { socketPath } }
         busy: tmuxServers(filter: { idle: false }) { complete nodes { socketPath } }
         hers: tmuxServers(filter: { idle: true, memberIds: $ann }) { complete nodes { socketPath } }
         all: tmuxServers(filter: { memberIds: $ann }) { complete nodes { socketPath } }
       }`,
      { ann: [await idOf(ann.login)] },
    );
    const idle = { socketPath: '/tmp/tmux-1002/default-2' };
    expect(data).toEqual({
      idle: { complete: false, nodes: [idle] },
      busy: { complete: false, nodes: [{ socketPath: '/tmp/tmux-1001/default-1' }] },
      // Nobody listens at the last one: there is nothing that could be idle.
      hers: { complete: true, nodes: [idle] },
      all: expect.objectContaining({ complete: true }),
    });
    const { data: cats } = await service.query<Record<string, unknown>>(
      'cat',
      `{ idle: tmuxServers(filter: { idle: true }) { complete nodes { id } }
         running: tmuxServers { complete } }`,
    );
    expect(cats).toEqual({ idle: { complete: false, nodes: [] }, running: { complete: true } });
  });

  it('filter panes, and name the servers in which one can not tell', async () => {
    members();
    const { data } = await service.query<Record<string, unknown>>(
      'ann',
      `{ some: panes(filter: { agentState: [WORKING, IDLE] }) {
           complete unknownServers { socketPath } unknownMembers { login }
           nodes { server { socketPath } tmuxId agent { state } } }
         none: panes(filter: { agentState: [] }) { nodes { id } }
         cats: panes(filter: { command: "hidden" }) { complete unknownServers { id } } }`,
    );
    const row = (number: number, tmuxId: string, state: string) => ({
      server: { socketPath: `/tmp/tmux-${1_000 + number}/default-${number}` },
      tmuxId,
      agent: { state },
    });
    expect(data?.some).toEqual({
      complete: false,
      unknownMembers: [{ login: 'ben' }],
      unknownServers: [{ socketPath: '/tmp/tmux-1003/default-3' }],
      nodes: [
        row(1, '%0', 'WORKING'),
        row(1, '%2', 'WORKING'),
        row(2, '%0', 'IDLE'),
        row(3, '%0', 'WORKING'),
      ],
    });
    expect(data?.none).toEqual({ nodes: [] });
    expect(data?.cats).toEqual({ complete: false, unknownServers: [] });
  });

  it('are given anew when only they changed', async () => {
    const { ann } = members();
    const query = '{ member(login: "ann") { tmuxServers { idle } } }';
    const idle = async () => (await service.query('ann', query)).data;
    const as = (value: boolean | null, version: string) => {
      const one = server(ann.id, 1, { idle: value, listing: status({ version }) });
      service.fleet.set(listing(ann.id, [one], { version }));
    };
    for (const [at, value] of [true, true, false, null, true].entries()) {
      as(value, `v${at}`);
      for (const _ of [1, 2])
        expect(await idle()).toEqual({ member: { tmuxServers: [{ idle: value }] } });
    }
  });
});

async function idOf(login: string): Promise<string> {
  const { data } = await service.query<{ member: { id: string } }>(
    'ann',
    'query($login: String!) { member(login: $login) { id } }',
    { login },
  );
  return data?.member.id ?? '';
}
