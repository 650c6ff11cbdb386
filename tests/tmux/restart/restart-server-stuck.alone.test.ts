import { type ChildProcess, spawn } from 'node:child_process';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { TmuxServerStuckError } from '../../../src/tmux/errors.ts';
import type { ServerView } from '../../../src/tmux/model.ts';
import { prepareRestartServer } from '../../../src/tmux/restart/restart-server.ts';
import { actingMember, installedVersion, restartRequest } from '../../support/acting-member.ts';
import { leaveNoDescriptor } from '../../support/descriptors.ts';
import { stopProcess } from '../../support/stop-process.ts';
import { longTier } from '../../support/tier.ts';
import {
  eventually,
  startTicks,
  startTmux,
  tmuxBinary,
  type Version,
} from '../../support/tmux-server.ts';

/** Clients of a newer tmux, which hang and hold three descriptors each. */
async function crowd(socket: string, pid: number): Promise<readonly ChildProcess[]> {
  await execa('prlimit', ['--pid', String(pid), '--nofile=48:4096']);
  return Array.from({ length: 24 }, () =>
    spawn(tmuxBinary('3.8') ?? 'tmux', ['-u', '-S', socket, '-C', 'attach'], {
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { PATH: '/usr/bin:/bin', TERM: 'xterm', LC_CTYPE: 'C.UTF-8' },
    }),
  );
}

const exhausted = (view: ServerView) =>
  view.status !== 'RUNNING' || view.reason === 'DESCRIPTORS_EXHAUSTED';

// One class, so one of them is enough for the short tier.
describe.each<Version>(longTier ? ['3.3a', '3.5a'] : ['3.5a'])(
  'tmux %s without descriptors',
  (version) => {
    it.concurrent.each([
      { crowded: false, force: false, what: 'is rescued, described and restarted' },
      {
        crowded: true,
        force: true,
        what: 'held by clients that hang ends by force, and is made again',
      },
      { crowded: true, force: false, what: 'held by clients that hang is named, and stays alone' },
    ])('$what', { timeout: 180_000 }, async ({ crowded, force }) => {
      await using server = await startTmux({ version });
      await server.run('set-environment', '-g', 'KEPT', 'yes');
      await using member = actingMember({
        directory: server.directory,
        installed: installedVersion(version),
      });
      await member.server(server.socket);
      const pid = await server.pid();
      const clients = crowded ? await crowd(server.socket, pid) : [];
      if (!crowded) await leaveNoDescriptor(pid, { hard: 4096 });
      try {
        const view = await eventually(
          async () => {
            const now = await member.server(server.socket);
            return exhausted(now) ? now : undefined;
          },
          'it has no descriptors left',
          60_000,
        );
        using act = await prepareRestartServer(member.tmux, restartRequest(view, { force }));
        const outcome = await act.run().catch((error: unknown) => error);
        if (!crowded || force) {
          expect(outcome).toMatchObject({ after: { status: 'RUNNING', sessionCount: 1 } });
          expect(await startTicks(pid)).toBeUndefined();
          expect(await server.run('show-environment', '-g', 'KEPT')).toBe('KEPT=yes');
        } else {
          // tmux waits for its clients before it ends, and these never leave.
          expect(outcome).toBeInstanceOf(TmuxServerStuckError);
          expect(outcome).toMatchObject({ pid, mayStillHappen: true });
          expect(await startTicks(pid)).toBeDefined();
        }
      } finally {
        for (const client of clients) client.kill('SIGKILL');
      }
    });
  },
);

describe('a server that does not end', () => {
  it('is named with its pid, and none is started beside it', { timeout: 120_000 }, async () => {
    await using server = await startTmux({ version: '3.3a' });
    await using member = actingMember({
      directory: server.directory,
      installed: installedVersion('3.3a'),
    });
    const view = await member.server(server.socket);
    const pid = view.pid ?? 0;
    using act = await prepareRestartServer(member.tmux, restartRequest(view));
    // It stops after the last look, so everything that is sent stays pending.
    await stopProcess(pid);
    const refused = await act.run().then(
      () => 'done',
      (error: unknown) => error,
    );
    expect(refused).toBeInstanceOf(TmuxServerStuckError);
    expect(refused).toMatchObject({ pid, mayStillHappen: true });
    expect(await startTicks(pid)).toBeDefined();
    // What was sent takes effect when it runs again: that is what mayStillHappen says.
    process.kill(pid, 'SIGCONT');
    await eventually(async () => (await startTicks(pid)) === undefined, 'it ends by then');
  });
});
