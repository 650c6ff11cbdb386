import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { paneRef, restartRequest } from '../support/acting-member.ts';
import { localFleet } from '../support/local-fleet.ts';
import { lacks } from '../support/needs.ts';
import { watchAndEcho } from '../support/pane-echo.ts';
import { foreign, RecordedTmux } from '../support/recorded-tmux.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { presentVersions } from '../support/tmux-server.ts';

/** What the helper does with a server, by a word of its client's command line. */
const uses = [
  'list-panes',
  '-C attach-session',
  'capture-pane',
  'respawn-pane',
  'show-environment',
  'kill-server',
];

describe.skipIf(lacks('gcc', 'patchelf'))('every tmux client that is ever started', () => {
  it('is the binary of the server that it talks to, with servers of all versions side by side', async () => {
    await using scratch = await scratchDirectory();
    const installed = presentVersions.at(-1) ?? '3.8';
    const recorded = await RecordedTmux.in(scratch.path, presentVersions);
    await using local = await localFleet({
      environment: { MUXWARDEN_TMUX_BIN: recorded.binary(installed), MUXWARDEN_LINGER_MS: '100' },
    });
    const { fleet } = local;
    for (const version of presentVersions) {
      await local.tmux({ name: version, version, binary: recorded.binary(version) });
    }
    const servers = new Map<string, number>();
    const clientOf =
      (binary: string, name: string) =>
      (...command: string[]) =>
        execa(binary, ['-u', '-S', join(local.directory, name), ...command]);

    for (let look = 0; look < 3; look++) await local.refresh();
    for (const version of presentVersions) {
      const view = local.server(version);
      expect(view).toMatchObject({
        status: 'RUNNING',
        version,
        installedVersion: installed,
        outdated: version !== installed,
        binaryDeleted: false,
      });
      servers.set(version, view.pid ?? 0);
      await watchAndEcho(fleet, paneRef(view), clientOf(recorded.binary(version), version));
      await fleet.capture(paneRef(view), 10);
      using pane = await fleet.prepareRestartPane({ pane: paneRef(view), operationId: version });
      await pane.run();
    }
    for (const version of presentVersions) {
      using act = await fleet.prepareRestartServer(restartRequest(local.server(version)));
      const { after } = await act.run();
      expect(after).toMatchObject({ status: 'RUNNING', version: installed });
      const view = local.server(version);
      expect(view.outdated).toBe(false);
      await watchAndEcho(fleet, paneRef(view), clientOf(recorded.binary(installed), version));
    }
    await local.refresh();

    const connections = await recorded.connections();
    expect(foreign(connections)).toEqual([]);
    const ofHelper = connections.filter(({ words }) => words.startsWith('tmux '));
    for (const version of presentVersions) {
      const words = ofHelper
        .filter(({ client, serverPid }) => {
          return client === recorded.binary(version) && serverPid === servers.get(version);
        })
        .map((connection) => connection.words);
      expect([version, uses.filter((use) => !words.some((line) => line.includes(use)))]).toEqual([
        version,
        [],
      ]);
    }

    // The record tells on a client of another version.
    const [older = '3.3a', newer = '3.5a'] = presentVersions.slice(1);
    const wrong = await local.tmux({
      name: 'wrong',
      version: newer,
      binary: recorded.binary(newer),
    });
    await clientOf(recorded.binary(older), 'wrong')('list-sessions');
    expect(foreign(await recorded.connections())).toEqual([
      {
        client: recorded.binary(older),
        server: recorded.binary(newer),
        serverPid: await wrong.pid(),
        words: expect.stringMatching(/ list-sessions$/),
      },
    ]);
  }, 120_000);
});
