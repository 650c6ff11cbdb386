import { chmod, copyFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { ListingUnknownError } from '../../src/tmux/errors.ts';
import type { Fleet } from '../../src/tmux/fleet.ts';
import type { PaneRef } from '../../src/tmux/model.ts';
import { prepareRestartServer } from '../../src/tmux/restart/restart-server.ts';
import {
  actingMember,
  installedVersion,
  paneRef,
  restartRequest,
} from '../support/acting-member.ts';
import { localFleet } from '../support/local-fleet.ts';
import { lacks } from '../support/needs.ts';
import { watchAndEcho } from '../support/pane-echo.ts';
import { longTier } from '../support/tier.ts';
import { presentClasses } from '../support/tmux-classes.ts';
import { presentVersions, startTicks, tmuxBinary, type Version } from '../support/tmux-server.ts';
import { Member } from './member-helper/member.ts';

const installed = presentVersions.at(-1) ?? '3.8';
const restartPane = async (fleet: Fleet, pane: PaneRef) => {
  using act = await fleet.prepareRestartPane({ pane, operationId: 'pane' });
  return await act.run();
};
const binaryOf = (version: Version) => tmuxBinary(version) ?? '';

/** Each version is replaced; in the long tier each meets the rest, too. */
const cases = presentClasses.flatMap((version) =>
  (longTier || version === installed
    ? (['replaced', 'spoilt', 'removed'] as const)
    : (['replaced'] as const)
  ).map((how) => [version, how] as const),
);

describe('a running server', () => {
  it.each(cases)(
    'of tmux %s whose binary was %s is listed, streamed, captured and restarted',
    async (version, how) => {
      await using local = await localFleet({
        environment: { MUXWARDEN_TMUX_BIN: binaryOf(installed) },
      });
      const binary = join(local.directory, 'tmux');
      await copyFile(binaryOf(version), binary);
      const tmux = await local.tmux({ version, binary });
      await local.refresh();
      expect(local.server()).toMatchObject({ version, binaryDeleted: false });

      // As a package manager does it: a new file under the old name.
      const next = join(local.directory, 'next');
      if (how === 'replaced') await copyFile(binaryOf(installed), next);
      if (how === 'spoilt') await writeFile(next, '#!/bin/sh\nexit 1\n', { mode: 0o755 });
      if (how === 'removed') await rm(binary);
      else await rename(next, binary);

      await local.refresh();
      const view = local.server();
      expect(view).toMatchObject({
        status: 'RUNNING',
        version,
        installedVersion: installed,
        outdated: version !== installed,
        binaryDeleted: true,
        listing: { state: 'FRESH' },
      });
      const own = (...words: string[]) => execa(binaryOf(version), ['-S', tmux.socket, ...words]);
      const events = await watchAndEcho(local.fleet, paneRef(view), own);
      expect(events[0]).toMatchObject({ kind: 'snapshot', source: 'CONTROL_CLIENT' });
      const { data } = await local.fleet.capture(paneRef(view), 0);
      expect(Buffer.from(data).toString()).toContain('so-far');
      expect((await restartPane(local.fleet, paneRef(view))).pane).toEqual(paneRef(view));

      using act = await local.fleet.prepareRestartServer(restartRequest(local.server()));
      const { after, notRestored } = await act.run();
      expect(await startTicks(view.pid ?? 0)).toBeUndefined();
      expect(after).toMatchObject({ status: 'RUNNING', version: installed, sessionCount: 1 });
      expect(notRestored.map(({ what }) => what)).toEqual(['screen']);
      expect(local.server()).toMatchObject({ outdated: false, binaryDeleted: false });
    },
  );
});

describe.skipIf(lacks('root', 'setpriv'))('a server whose binary may be run but not read', () => {
  it('is named BINARY_UNREADABLE with its pid, nothing is sent to it, and another one is FRESH', async () => {
    await using alice = await Member.ordinary();
    const binary = alice.path('tmux-0711');
    await copyFile(binaryOf(installed), binary);
    await chmod(binary, 0o711);
    await using closed = await alice.server(installed, 'closed', binary);
    await using open = await alice.server(installed, 'open');
    await using member = actingMember({
      directory: alice.directory,
      installed: installedVersion(installed),
      helper: await alice.helper(),
    });
    const view = await member.server(closed.socket);
    expect(view).toMatchObject({
      status: 'UNKNOWN',
      reason: 'BINARY_UNREADABLE',
      pid: closed.pid,
      version: null,
      outdated: null,
      sessions: null,
      detail: expect.stringContaining('Permission denied'),
    });
    expect(await member.server(open.socket)).toMatchObject({
      status: 'RUNNING',
      listing: { state: 'FRESH' },
    });
    const refused = await prepareRestartServer(member.tmux, restartRequest(view)).catch(
      (error: unknown) => error,
    );
    expect(refused).toBeInstanceOf(ListingUnknownError);
    expect(refused).toMatchObject({ reason: 'BINARY_UNREADABLE' });
    expect(await startTicks(closed.pid)).toBe(closed.ticks);
    expect(await closed.tmux('list-clients')).toBe('');
  });
});
