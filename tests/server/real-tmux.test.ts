import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { createClient } from 'graphql-ws';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { LocalFleet } from '../../src/tmux/local-fleet.ts';
import { paneRef, restartRequest } from '../support/acting-member.ts';
import { connect } from '../support/graphql-over-http.ts';
import { type LocalFleetFixture, localFleet } from '../support/local-fleet.ts';
import { memberUuid } from '../support/synthetic-fleet.ts';
import { type Service, startServiceOn } from '../support/synthetic-service.ts';
import { eventually, type TmuxServer } from '../support/tmux-server.ts';

/** The API in front of real tmux, through the real helper. */
let local: LocalFleetFixture;
let service: Service<LocalFleet>;
let tmux: TmuxServer;
beforeEach(async () => {
  local = await localFleet({
    memberIds: [memberUuid(1)],
    environment: { MUXWARDEN_LISTING_INTERVAL_MS: '500' },
  });
  tmux = await local.tmux();
  service = await startServiceOn(local.fleet);
  service.accounts.add('ann', 'ADMIN');
});
afterEach(async () => {
  await service[Symbol.asyncDispose]();
  await local[Symbol.asyncDispose]();
});

interface PaneEvent {
  readonly paneOutput: {
    readonly __typename: string;
    readonly data?: string;
    readonly code?: string;
    readonly closeReason?: string;
  };
}
const watch = `subscription($pane: ID!) { paneOutput(paneId: $pane) {
  __typename ... on PaneSnapshot { data } ... on PaneChunk { data }
  ... on PaneClosed { closeReason } ... on UserError { code }
} }`;

type Subscribe = (query: string, variables: Record<string, unknown>) => AsyncGenerator<PaneEvent>;
const transports: Record<string, Subscribe> = {
  SSE: (query, variables) => connect(service.url, 'mw_ann').subscribe<PaneEvent>(query, variables),
  WebSocket: async function* (query, variables) {
    const client = createClient({
      url: `${service.url.replace('http', 'ws')}/graphql`,
      webSocketImpl: WebSocket,
      connectionParams: { Authorization: 'Bearer mw_ann' },
      retryAttempts: 0,
    });
    try {
      for await (const { data } of client.iterate<PaneEvent>({ query, variables }))
        if (data) yield data;
    } finally {
      await client.dispose();
    }
  },
};

async function firstPane(): Promise<string> {
  const answer = await service.query<{ panes: { nodes: { id: string; tmuxId: string }[] } }>(
    'ann',
    '{ panes { nodes { id tmuxId } } }',
  );
  const id = answer.data?.panes.nodes.find(({ tmuxId }) => tmuxId === '%0')?.id;
  if (id === undefined) throw new Error(`no pane: ${JSON.stringify(answer)}`);
  return id;
}

describe('queries', () => {
  it('show what tmux has, names with anything in them included', async () => {
    await tmux.run('rename-session', '-t', '=main', `é世🙂 '"\` ##(touch x) |`);
    const name = await tmux.run('display-message', '-p', '#{session_name}');
    expect(name).toContain('#(touch x) |');
    await local.refresh();
    const { data } = await service.query<{
      tmuxServers: {
        complete: boolean;
        nodes: { pid: number; status: string; sessions: { name: string }[] }[];
      };
    }>('ann', '{ tmuxServers { complete nodes { pid status sessions { name } } } }');
    expect(data?.tmuxServers).toEqual({
      complete: true,
      nodes: [{ pid: await tmux.pid(), status: 'RUNNING', sessions: [{ name }] }],
    });
  });

  it('tell a session that was made by hand to followers, once', async () => {
    const follow = connect(service.url, 'mw_ann').subscribe<{
      listingChanged: { member?: { tmuxServers: { sessions: { name: string }[] }[] }; at?: string };
    }>(
      'subscription { listingChanged { ... on ListingSnapshot { member { tmuxServers { sessions { name } } } } ... on ListingSynced { at } } }',
    );
    const names = async () => {
      const { value } = await follow.next();
      return value?.listingChanged.member?.tmuxServers[0]?.sessions.map(({ name }) => name);
    };
    expect(await names()).toEqual(['main']);
    expect(await names()).toBeUndefined();
    await tmux.run('new-session', '-d', '-s', 'second', 'exec sh');
    expect(await names()).toEqual(['main', 'second']);
    await tmux.run('kill-session', '-t', '=second');
    expect(await names()).toEqual(['main']);
    await follow.return();
  });
});

describe('agents and idleness', () => {
  it('one works and one rests: each is found by what it does', async () => {
    await using quick = await localFleet({
      memberIds: [memberUuid(1)],
      environment: { MUXWARDEN_IDLE_AFTER_MS: '1000', MUXWARDEN_AGENTS: 'mine=sleep' },
    });
    await using front = await startServiceOn(quick.fleet);
    front.accounts.add('ann', 'ADMIN');
    const working = await quick.tmux({ name: 'working' });
    await quick.tmux({ name: 'resting' });
    await working.run('send-keys', '-t', '%0', 'exec sleep 1000', 'Enter');
    const look = async () => {
      await quick.refresh();
      return (
        await front.query(
          'ann',
          `{ members { nodes { workingAgents } }
             idle: tmuxServers(filter: { idle: true }) { complete nodes { socketPath } }
             busy: tmuxServers(filter: { idle: false }) { complete nodes { socketPath workingAgents } }
             panes(filter: { agentState: [WORKING] }) { nodes { agent { kind evidence } } } }`,
        )
      ).data;
    };
    const report = () => Math.floor(Date.now() / 1_000);
    const wanted = {
      members: { nodes: [{ workingAgents: 1 }] },
      idle: { complete: true, nodes: [{ socketPath: join(quick.directory, 'resting') }] },
      busy: {
        complete: true,
        nodes: [{ socketPath: join(quick.directory, 'working'), workingAgents: 1 }],
      },
      panes: { nodes: [{ agent: { kind: 'mine', evidence: 'SELF_REPORT' } }] },
    };
    await eventually(
      async () =>
        (await working.run('display-message', '-p', '-t', '%0', '#{pane_current_command}')) ===
        'sleep',
      'it sleeps',
    );
    await working.run('set-option', '-p', '-t', '%0', '@agent_state', `working:${report()}`);
    await eventually(async () => isDeepStrictEqual(await look(), wanted), 'one works, one rests');
  });
});

describe.each(Object.entries(transports))('paneOutput over %s', (_name, subscribe) => {
  it('is what the program wrote, to the byte', async () => {
    const bytes = Buffer.concat([
      ...Array.from({ length: 300 }, (_, line) =>
        Buffer.from(`${line} é世🙂 \\ %end 1 2 3 \u001b[3${line % 8}mcolour\u001b[0m\r\n`),
      ),
      Buffer.from(Array.from({ length: 128 }, (_, byte) => 0x80 + byte)),
      Buffer.from('\r\n=== the end ===\r\n'),
    ]);
    const file = join(local.directory, 'bytes');
    await writeFile(file, bytes);
    const pane = await firstPane();
    const seen: Buffer[] = [];
    let asked = false;
    for await (const { paneOutput } of subscribe(watch, { pane })) {
      if (paneOutput.__typename === 'PaneChunk')
        seen.push(Buffer.from(paneOutput.data ?? '', 'base64'));
      if (paneOutput.__typename === 'PaneSnapshot' && !asked) {
        asked = true;
        // Raw, so that the terminal line changes nothing; the echo of the command comes before.
        await tmux.run(
          'send-keys',
          '-t',
          '%0',
          `stty raw -echo; cat '${file}'; stty sane`,
          'Enter',
        );
      }
      if (Buffer.concat(seen).includes('=== the end ===\r\n')) break;
    }
    const all = Buffer.concat(seen);
    const start = all.indexOf(Buffer.from('0 é世'));
    const digest = (of: Buffer) => createHash('sha256').update(of).digest('hex');
    expect(digest(all.subarray(start, start + bytes.length))).toBe(digest(bytes));
  });

  it('of a past generation is StaleGenerationError alone, and node is null (AC-1)', async () => {
    const pane = await firstPane();
    await tmux.end();
    await local.tmux({ command: ['echo SECRET-2; exec sh'] });
    await local.refresh();
    const seen: PaneEvent['paneOutput'][] = [];
    for await (const { paneOutput } of subscribe(watch, { pane })) seen.push(paneOutput);
    expect(seen).toEqual([{ __typename: 'StaleGenerationError', code: 'ESTALE' }]);
    const answer = await service.query(
      'ann',
      'query($id: ID!) { node(id: $id) { ... on TmuxPane { capture { ... on PaneCapture { text } } } } nodes(ids: [$id]) { id } }',
      { id: pane },
    );
    expect(answer).toEqual({ data: { node: null, nodes: [null] } });
    expect(await firstPane()).not.toBe(pane);
  });

  it('ends with a reason when the server ends', async () => {
    const pane = await firstPane();
    let reason: string | undefined;
    for await (const { paneOutput } of subscribe(watch, { pane })) {
      if (paneOutput.__typename === 'PaneSnapshot') await tmux.run('kill-server');
      reason = paneOutput.closeReason ?? reason;
    }
    expect(['SERVER_LOST', 'SESSION_KILLED', 'EXITED', 'PANE_KILLED']).toContain(reason);
  });

  it('ends with SERVER_RESTARTED across a restart, and shows nothing of the next life', async () => {
    await tmux.run('send-keys', '-t', '%0', 'echo FIRST-LIFE', 'Enter');
    const pane = await firstPane();
    const before = local.server();
    const seen: PaneEvent['paneOutput'][] = [];
    let restarted: Promise<unknown> | undefined;
    for await (const { paneOutput } of subscribe(watch, { pane })) {
      seen.push(paneOutput);
      restarted ??= (async () => {
        using act = await local.fleet.prepareRestartServer(
          restartRequest(before, {
            restoreCommands: [{ pane: paneRef(before), command: ['sh', '-c', 'yes SECOND-LIFE'] }],
          }),
        );
        return await act.run();
      })();
    }
    await restarted;
    const kinds = seen.map(({ __typename }) => __typename);
    expect(kinds.at(-1)).toBe('PaneClosed');
    expect(kinds.filter((kind) => kind === 'PaneClosed' || kind === 'UserError')).toHaveLength(1);
    expect(seen.at(-1)?.closeReason).toBe('SERVER_RESTARTED');
    const text = seen.map(({ data }) => Buffer.from(data ?? '', 'base64').toString()).join('');
    expect(text).toContain('FIRST-LIFE');
    expect(text).not.toContain('SECOND-LIFE');
    expect(local.server().generation).not.toBe(before.generation);

    const again: PaneEvent['paneOutput'][] = [];
    for await (const { paneOutput } of subscribe(watch, { pane })) again.push(paneOutput);
    expect(again).toEqual([{ __typename: 'StaleGenerationError', code: 'ESTALE' }]);
  });
});
