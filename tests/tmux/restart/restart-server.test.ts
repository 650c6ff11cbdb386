import { access, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { prepareRestartServer } from '../../../src/tmux/restart/restart-server.ts';
import { actingMember, installedVersion, restartRequest } from '../../support/acting-member.ts';
import { contentsOf } from '../../support/server-contents.ts';
import { longTier } from '../../support/tier.ts';
import { tmuxClient } from '../../support/tmux-client.ts';
import {
  eventually,
  presentVersions,
  startTicks,
  startTmux,
  type TmuxServer,
  type Version,
} from '../../support/tmux-server.ts';

/** Fills a server with one of everything that a restart keeps. */
async function furnish(server: TmuxServer, folder: string): Promise<void> {
  const odd = join(folder, 'a b;#(touch hit)é');
  await mkdir(odd, { recursive: true });
  const run = server.run;
  await run('set-option', '-g', 'base-index', '1');
  await run('set-option', '-gw', 'pane-base-index', '1');
  await run('set-option', '-g', 'default-size', '100x40');
  await run('set-option', '-g', 'history-limit', '4321');
  await run('set-option', '-g', 'status-left', '#S "quoted" \'single\' $HOME \\ é;');
  await run('set-option', '-s', 'escape-time', '7');
  await run('set-option', '-s', '@user', 'two  blanks;');
  await run('set-option', '-g', '@empty', '');
  await run('set-option', '-gw', 'mode-keys', 'vi');
  await run('set-option', '-s', 'command-alias[20]', 'zz=list-keys');
  await run('set-option', '-gu', 'update-environment[3]');
  await run('set-environment', '-g', 'SSH_AUTH_SOCK', '/tmp/agent of alice/s.1');
  await run('set-environment', '-g', 'ODD', 'a"b$c`d\\e#(touch hit) é;');
  await run('set-environment', '-gr', 'GONE');
  await run('rename-session', '-t', '$0', 'x "touch hit" ##(touch hit) é世🙂');
  await run('move-window', '-s', '$0:', '-t', '$0:3');
  await run('split-window', '-h', '-t', '$0:3', '-c', odd.replaceAll('#', '##'), 'exec sh');
  await run('split-window', '-v', '-t', '$0:3', '-c', '/usr', 'exec sh');
  await run('split-window', '-v', '-t', '$0:3', '-l', '5', '-c', '/usr/bin', 'exec sh');
  await run('select-pane', '-t', '$0:3.2', '-T', 'title ##(touch hit) é|x');
  await run('new-window', '-t', '$0:7', '-n', 'w;. :', '-c', '/usr/lib', 'exec sh');
  await run('split-window', '-h', '-t', '$0:7', '-c', '/', 'exec sh');
  await run('resize-pane', '-Z', '-t', '$0:7');
  await run('set-option', '-w', '-t', '$0:7', 'synchronize-panes', 'on');
  await run('set-option', '-t', '$0', 'status', 'off');
  await run('set-environment', '-t', '$0', 'SESSION', 'own');
  await run(
    'new-session',
    '-d',
    '-s',
    'second',
    '-x',
    '77',
    '-y',
    '21',
    '-c',
    '/usr/bin',
    'exec sh',
  );
  await run('link-window', '-d', '-s', '$0:7', '-t', 'second:9');
  await run('new-session', '-d', '-s', 'third', '-t', 'second');
  await run('select-window', '-t', '$0:3');
  await run('select-window', '-t', '$0:7');
  await run('select-pane', '-t', '$0:3.3');
  // Last, for hooks would run here.
  await run('set-hook', '-g', 'after-new-window', `run-shell "touch ${folder}/hook"`);
  await run('set-hook', '-g', 'session-created[5]', `run-shell "touch ${folder}/hook"`);
}

/** What a server holds once the process that tmux forked for each pane has become the pane's shell. */
function settled(client: Parameters<typeof contentsOf>[0]) {
  return eventually(async () => {
    const contents = await contentsOf(client);
    const named = contents.windows.every((window) => !window.includes('|tmux|'));
    return named && contents.panes.every((pane) => !pane.endsWith('|')) ? contents : undefined;
  }, 'every pane says where it is and what runs there');
}

const pairs: readonly (readonly [Version, Version])[] = [
  ...presentVersions.map((version) => [version, version] as const),
  ...(longTier
    ? presentVersions.flatMap((from) => presentVersions.map((to) => [from, to] as const))
    : ([
        ['3.8', '3.3a'],
        ['3.5a', '3.8'],
        ['3.1c', '3.7c'],
      ] as const)
  ).filter(([from, to]) => from !== to),
];

describe.each(pairs)('restarting tmux %s as %s', (from, to) => {
  it('gives back everything that was in it', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mw-'));
    await using server = await startTmux({ version: from, columns: 100, rows: 40 });
    await using member = actingMember({
      directory: server.directory,
      installed: installedVersion(to),
    });
    await furnish(server, folder);
    const oldPid = await server.pid();
    const before = await settled(server);
    const view = await member.server(server.socket);
    using act = await prepareRestartServer(member.tmux, restartRequest(view));
    expect(act.before).toMatchObject({
      pid: oldPid,
      status: 'RUNNING',
      version: from,
      sessionCount: 3,
    });
    const result = await act.run();

    expect(await startTicks(oldPid)).toBeUndefined();
    const after = tmuxClient(to, server.socket);
    expect(result.after).toMatchObject({ status: 'RUNNING', version: to, sessionCount: 3 });
    expect(result.after.pid).toBe(await after.pid());
    expect(result.server.sessions).toHaveLength(3);
    const now = await settled(after);
    // 3.1c does not tell the directory of a session.
    const told = (sessions: readonly string[]) =>
      [from, to].includes('3.1c')
        ? sessions.map((one) => one.replace(/\|[^|]*\|/, '||'))
        : sessions;
    expect(told(now.sessions)).toEqual(told(before.sessions));
    expect(now.windows).toEqual(before.windows);
    expect(now.panes).toEqual(before.panes);
    expect(now.environment).toEqual(before.environment);
    if (from === to) expect(now.options).toEqual(before.options);
    expect(result.survivors).toEqual([]);
    expect(result.notRestored.map(({ what, detail }) => `${what}: ${detail}`)).toEqual([
      expect.stringMatching(/^screen: .* 7 panes/),
    ]);
    for (const name of ['hook', 'hit']) await expect(access(join(folder, name))).rejects.toThrow();
    await rm(folder, { recursive: true });
  });
});
