import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LocalFleet } from '../../src/tmux/fleet.ts';
import { type LocalFleetFixture, localFleet } from '../support/local-fleet.ts';
import { lacks } from '../support/needs.ts';
import { memberUuid } from '../support/synthetic-fleet.ts';
import { type Service, startServiceOn } from '../support/synthetic-service.ts';
import type { TmuxServer } from '../support/tmux-server.ts';
import { eventually } from '../support/tmux-server.ts';

/** The examples of docs/, run word for word against a service with real tmux. */
const root = join(import.meta.dirname, '../..');

async function examples(page: string, language: 'sh' | 'js'): Promise<readonly string[]> {
  const text = await readFile(join(root, 'docs', page), 'utf8');
  const blocks = text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm);
  return [...blocks].flatMap(([, of, block = '']) => (of === language ? [block] : []));
}

describe.skipIf(lacks('tmux', 'curl', 'bash'))('the examples', () => {
  let local: LocalFleetFixture;
  let service: Service<LocalFleet>;
  let tmux: TmuxServer;
  let environment: Record<string, string>;

  beforeAll(async () => {
    local = await localFleet({ memberIds: [memberUuid(1)] });
    tmux = await local.tmux({ command: ['echo on the screen; exec cat'] });
    service = await startServiceOn(local.fleet);
    service.accounts.add('ann', 'ADMIN');
    const pane = await eventually(async () => {
      const { data } = await service.query<{
        panes: { nodes: { id: string; capture: { text: string } }[] };
      }>('ann', '{ panes { nodes { id capture { ... on PaneCapture { text } } } } }');
      const [node] = data?.panes.nodes ?? [];
      return node?.capture.text.includes('on the screen') ? node.id : undefined;
    }, 'the pane to show its text');
    environment = {
      PATH: process.env.PATH ?? '',
      MUXWARDEN_URL: service.url,
      MUXWARDEN_KEY: 'mw_ann',
      MUXWARDEN_PANE: pane,
    };
  });
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    await local?.[Symbol.asyncDispose]();
  });

  const shell = (example: string) => ['bash', '-c', `set -e\n${example}`];
  // Modules are looked for from here.
  const script = (example: string) => [process.execPath, '--input-type=module', '--eval', example];
  const start = ([program = '', ...words]: readonly string[]) =>
    execa(program, words, {
      cwd: root,
      extendEnv: false,
      env: environment,
      reject: false,
      timeout: 30_000,
    });

  it('of queries answer with data, the whole of it', async () => {
    const [overview = '', vim = ''] = await examples('api.md', 'sh');
    const { data, errors } = JSON.parse((await start(shell(overview))).stdout);
    expect(errors).toBeUndefined();
    expect(data).toMatchObject({
      viewer: { role: 'ADMIN' },
      tmuxServers: {
        complete: true,
        nodes: [{ member: { login: 'ann' }, socketPath: tmux.socket, status: 'RUNNING' }],
      },
    });
    const page = JSON.parse((await start(shell(vim))).stdout);
    expect(page).toEqual({
      data: {
        panes: { complete: true, nodes: [], pageInfo: { hasNextPage: false, endCursor: null } },
      },
    });
  });

  it('of a script that reads every screen prints them', async () => {
    const [reader = ''] = await examples('api.md', 'js');
    const { stdout, stderr } = await start(script(reader));
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^%0 on the screen\n/);
  });

  it('of listings over server-sent events begin with each member and a sync', async () => {
    const [follow = ''] = await examples('subscriptions.md', 'sh');
    const running = start(shell(`${follow.trimEnd()} --max-time 3 || true`));
    const { stdout } = await running;
    const events = [...stdout.matchAll(/^data: (\{.*\})$/gm)].map(
      ([, event = '']) => JSON.parse(event).data.listingChanged,
    );
    expect(events[0]).toMatchObject({
      __typename: 'ListingSnapshot',
      member: { login: 'ann', tmuxServers: [{ sessions: [{ name: 'main' }] }] },
    });
    expect(events[1]).toEqual({ __typename: 'ListingSynced' });
  });

  it('of a stream over a WebSocket print what the pane prints, until it is closed', async () => {
    const [watch = ''] = await examples('subscriptions.md', 'js');
    const running = start(script(watch));
    let seen = '';
    running.stdout?.on('data', (piece: Buffer) => {
      seen += piece.toString();
    });
    await eventually(() => seen.includes('on the screen'), 'the screen');
    await tmux.run('send-keys', '-t', '%0', 'later', 'Enter');
    await eventually(() => seen.includes('later\r\nlater\r\n'), 'what came later');
    await tmux.run('kill-pane', '-t', '%0');
    const { exitCode, stderr } = await running;
    expect(stderr).toContain("__typename: 'PaneClosed'");
    expect(exitCode).toBe(0);
  });
});
