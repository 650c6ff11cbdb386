import { mkdir, mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  NotFoundError,
  OperationInProgressError,
  StaleGenerationError,
  TmuxServerStuckError,
  WorkingDirectoryMissingError,
} from '../../../src/tmux/errors.ts';
import { serverKey } from '../../../src/tmux/member-tmux.ts';
import type { PaneRef } from '../../../src/tmux/model.ts';
import { prepareRestartPane } from '../../../src/tmux/restart/restart-pane.ts';
import {
  type ActingMember,
  actingMember,
  installedVersion,
  paneRef,
} from '../../support/acting-member.ts';
import { stopProcess } from '../../support/stop-process.ts';
import {
  eventually,
  presentVersions,
  type StartOptions,
  startTicks,
  startTmux,
  type Version,
} from '../../support/tmux-server.ts';

async function world(options: StartOptions & { readonly version: Version }) {
  const server = await startTmux(options);
  const member = actingMember({
    directory: server.directory,
    installed: installedVersion(options.version),
  });
  return {
    server,
    member,
    async panePid(pane = 0) {
      return Number(await server.run('display-message', '-p', '-t', `%${pane}`, '#{pane_pid}'));
    },
    async [Symbol.asyncDispose]() {
      await member[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

async function restart(member: ActingMember, pane: PaneRef) {
  using act = await prepareRestartPane(member.tmux, { pane, operationId: 'operation' });
  return await act.run();
}

describe.concurrent.each(presentVersions)('restarting a pane of tmux %s', (version) => {
  it('ends what ran, starts the pane’s own command where it was, and leaves the rest alone', async () => {
    await using it = await world({ version, command: ['exec sleep 1000'], cwd: '/usr' });
    await it.server.run('split-window', '-d', '-t', 'main:', 'exec sleep 2000');
    const [before, other] = [await it.panePid(0), await it.panePid(1)];
    const view = await it.member.server(it.server.socket);
    using act = await prepareRestartPane(it.member.tmux, { pane: paneRef(view), operationId: 'x' });
    expect(act.before).toMatchObject({ status: 'RUNNING', generation: view.generation });
    expect(act.targetLabel).toContain('main:0.0 (%0)');
    const { pane, after, survivors } = await act.run();
    expect(pane).toEqual(paneRef(view));
    expect(after).toMatchObject({
      generation: view.generation,
      status: 'RUNNING',
      sessionCount: 1,
    });
    expect(survivors).toEqual([]);
    const now = await it.panePid(0);
    expect(now).not.toBe(before);
    expect(await startTicks(before)).toBeUndefined();
    expect(await it.panePid(1)).toBe(other);
    const runs = () => readFile(`/proc/${now}/cmdline`, 'utf8');
    await eventually(async () => (await runs()) === 'sleep\x001000\0', 'it runs the command');
    expect(await realpath(`/proc/${now}/cwd`)).toBe('/usr');
    const listed = it.member.tmux.server(view.ref)?.sessions?.[0]?.windows[0]?.panes;
    expect(listed?.map(({ pid }) => pid)).toEqual([now, other]);
  });

  it('starts again a pane whose program has ended', async () => {
    await using it = await world({ version, command: ['sleep 1000'] });
    await it.server.run('set-option', '-gw', 'remain-on-exit', 'on');
    process.kill(await it.panePid(), 'SIGKILL');
    const view = await eventually(async () => {
      const now = await it.member.server(it.server.socket);
      return now.sessions?.[0]?.windows[0]?.panes[0]?.dead ? now : undefined;
    }, 'the pane is dead');
    if (version === '3.1c') {
      // It keeps no start directory, and the one of a dead process is gone: not in the home, then.
      await expect(restart(it.member, paneRef(view))).rejects.toThrow(
        /does not tell the directory/,
      );
      return;
    }
    expect((await restart(it.member, paneRef(view))).pane).toEqual(paneRef(view));
    const pane = it.member.tmux.server(view.ref)?.sessions?.[0]?.windows[0]?.panes[0];
    expect(pane).toMatchObject({ dead: false });
    expect(await startTicks(pane?.pid ?? 0)).toBeDefined();
  });

  it('names what lives on', async () => {
    const script = `setsid sleep 3001 & nohup sleep 3002 >/dev/null 2>&1 & (trap '' HUP; exec sleep 3003) & sleep 3004 & exec sleep 3000`;
    await using it = await world({ version, command: [script] });
    const view = await it.member.server(it.server.socket);
    await eventually(async () => {
      const described = await it.member.tmux.helper.ask(
        `describe socket=${view.ref.pathHex} pid=${view.pid} ticks=${view.generation?.split(':')[2]} start=${view.tmuxStartTime}`,
      );
      const ran = described.rows
        .filter(([kind]) => kind === 'process')
        .map((row) => Buffer.from(row[4] ?? '', 'hex').toString());
      return ['3000', '3001', '3002', '3003', '3004'].every((seconds) =>
        ran.includes(`sleep ${seconds}`),
      );
    }, 'all of it runs');
    const { survivors } = await restart(it.member, paneRef(view));
    try {
      const commands = survivors.map(({ command }) => command).sort();
      // The second run of the script begins anew and survives nothing.
      expect(commands).toEqual(['sleep 3001', 'sleep 3002', 'sleep 3003']);
    } finally {
      for (const { pid } of survivors) process.kill(pid, 'SIGKILL');
      const again = await restart(it.member, paneRef(view));
      for (const { pid } of again.survivors) process.kill(pid, 'SIGKILL');
      await it.server.run('respawn-pane', '-k', '-t', '%0', 'exec sleep 1');
    }
  });

  it('refuses a directory that is gone, and takes it once it was made again', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mw-'));
    const gone = join(folder, 'a b;#(touch hit)é\nx');
    await mkdir(gone);
    await using it = await world({ version, command: ['exec sleep 1000'] });
    await it.server.run(
      'respawn-pane',
      '-k',
      '-t',
      '%0',
      '-c',
      gone.replaceAll('#', '##'),
      'exec sleep 1001',
    );
    const before = await it.panePid();
    const isIn = async (pid: number) => (await realpath(`/proc/${pid}/cwd`)) === gone;
    await eventually(() => isIn(before), 'its program is in the directory');
    const view = await it.member.server(it.server.socket);
    await rm(gone, { recursive: true });
    const refused = await restart(it.member, paneRef(view)).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(WorkingDirectoryMissingError);
    expect(refused).toMatchObject({ path: gone });
    expect(await it.panePid()).toBe(before);
    await mkdir(gone);
    await restart(it.member, paneRef(view));
    const now = await it.panePid();
    expect(now).not.toBe(before);
    await eventually(() => isIn(now), 'the next one is in it too');
    await rm(folder, { recursive: true });
  });

  it('touches nothing of another life, nor a pane that is not there, nor a stopped server', async () => {
    await using it = await world({ version, command: ['exec sleep 1000'] });
    const view = await it.member.server(it.server.socket);
    const pane = paneRef(view);
    const before = await it.panePid();
    await expect(restart(it.member, { ...pane, pane: 7 })).rejects.toThrow(NotFoundError);
    const [boot, pid, ticks] = pane.generation.split(':');
    const old = { ...pane, generation: `${boot}:${pid}:${Number(ticks) - 1}` };
    await expect(restart(it.member, old)).rejects.toMatchObject({
      name: 'StaleGenerationError',
      expected: old.generation,
      current: pane.generation,
    });
    const server = view.pid ?? 0;
    await stopProcess(server);
    const stuck = await restart(it.member, pane).catch((error: unknown) => error);
    expect(stuck).toBeInstanceOf(TmuxServerStuckError);
    expect(stuck).toMatchObject({ pid: server, mayStillHappen: false });
    process.kill(server, 'SIGCONT');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await it.panePid()).toBe(before);
  });
});

it.each(presentVersions.filter((version) => version === '3.3a' || version === '3.8'))(
  'a pane of tmux %s whose program ends each time is started again',
  async (version) => {
    await using it = await world({ version, command: ['sleep 1000'] });
    await it.server.run('set-option', '-gw', 'remain-on-exit', 'on');
    const log = join(it.server.directory, 'log');
    await it.server.run('respawn-pane', '-k', '-t', '%0', `echo >> ${log}; exit 3`);
    const view = await eventually(async () => {
      const now = await it.member.server(it.server.socket);
      return now.sessions?.[0]?.windows[0]?.panes[0]?.dead ? now : undefined;
    }, 'the pane is dead');
    expect((await restart(it.member, paneRef(view))).pane).toEqual(paneRef(view));
    await eventually(async () => (await readFile(log, 'utf8')) === '\n\n', 'it ran twice');
  },
);

describe('a pane’s turn', () => {
  const version = presentVersions[0] ?? '3.3a';

  it('comes after a restart of its server, whose new life it then leaves alone', async () => {
    await using it = await world({ version, command: ['exec sleep 1000'] });
    const view = await it.member.server(it.server.socket);
    const held = await it.member.tmux.locks.acquireAlone(serverKey(view.ref), 'restart');
    const waiting = prepareRestartPane(it.member.tmux, { pane: paneRef(view), operationId: 'x' });
    const outcome = waiting.then(
      () => 'prepared',
      (error: unknown) => error,
    );
    expect(
      await Promise.race([outcome, new Promise((ok) => setTimeout(() => ok('waits'), 300))]),
    ).toBe('waits');
    await it.server.end();
    await using next = await startTmux({
      version,
      directory: it.server.directory,
      command: ['exec sleep 1000'],
    });
    const before = await next.run('list-panes', '-a', '-F', '#{pane_pid}');
    held[Symbol.dispose]();
    expect(await outcome).toBeInstanceOf(StaleGenerationError);
    expect(await next.run('list-panes', '-a', '-F', '#{pane_pid}')).toBe(before);
    // Its lock was given back.
    expect(it.member.tmux.locks.holder(serverKey(view.ref))).toBeUndefined();
    (await it.member.tmux.locks.acquireAlone(serverKey(view.ref), 'y'))[Symbol.dispose]();
  });

  it('is not waited for longer than a restart may take', async () => {
    await using it = await world({ version, command: ['exec sleep 1000'] });
    const view = await it.member.server(it.server.socket);
    let ring = () => {};
    const tmux: typeof it.member.tmux = Object.create(it.member.tmux, {
      clock: {
        value: {
          ...it.member.tmux.clock,
          after: (_ms: number, then: () => void) => {
            ring = then;
            return () => {};
          },
        },
      },
    });
    const held = await it.member.tmux.locks.acquireAlone(serverKey(view.ref), 'the-restart');
    const waiting = prepareRestartPane(tmux, { pane: paneRef(view), operationId: 'x' });
    ring();
    const refused = await waiting.catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(OperationInProgressError);
    expect(refused).toMatchObject({ operationId: 'the-restart' });
    held[Symbol.dispose]();
    await restart(it.member, paneRef(view));
  });
});
