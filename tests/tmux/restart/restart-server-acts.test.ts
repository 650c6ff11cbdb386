import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RestartServerRequest } from '../../../src/tmux/acts.ts';
import {
  NotFoundError,
  OperationInProgressError,
  StaleGenerationError,
  TmuxServerStuckError,
  UnsupportedError,
} from '../../../src/tmux/errors.ts';
import { serverKey } from '../../../src/tmux/member-tmux.ts';
import type { ServerView } from '../../../src/tmux/model.ts';
import { prepareRestartServer } from '../../../src/tmux/restart/restart-server.ts';
import {
  type ActingMember,
  actingMember,
  installedVersion,
  paneRef,
  restartRequest,
} from '../../support/acting-member.ts';
import { stopProcess } from '../../support/stop-process.ts';
import { rounds } from '../../support/tier.ts';
import { tmuxClient } from '../../support/tmux-client.ts';
import {
  eventually,
  presentVersions,
  type StartOptions,
  startTicks,
  startTmux,
  type TmuxServer,
  type Version,
} from '../../support/tmux-server.ts';

type Installed = ReturnType<typeof installedVersion> | 'none';

async function world(
  version: Version,
  options: StartOptions = {},
  installed: Installed = installedVersion(version),
  environment: Readonly<Record<string, string>> = {},
) {
  const server = await startTmux({ version, ...options });
  const member = actingMember({
    directory: server.directory,
    installed: installed === 'none' ? undefined : installed,
    environment,
  });
  return {
    server,
    member,
    view: await member.server(server.socket),
    pid: await server.pid(),
    async [Symbol.asyncDispose]() {
      await member[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

async function restart(
  member: ActingMember,
  view: ServerView,
  more: Partial<RestartServerRequest> = {},
) {
  using act = await prepareRestartServer(member.tmux, restartRequest(view, more));
  return await act.run();
}

const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => 'done',
    (error: unknown) => error,
  );
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.concurrent.each(presentVersions)('a server of tmux %s', (version) => {
  it('that is stopped gets nothing, and lives on when it runs again; then it can be restarted', async () => {
    await using it = await world(version);
    await stopProcess(it.pid);
    const began = performance.now();
    const stuck = await refusal(restart(it.member, it.view));
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(stuck).toBeInstanceOf(TmuxServerStuckError);
    expect(stuck).toMatchObject({ pid: it.pid, status: 'STOPPED', mayStillHappen: false });
    process.kill(it.pid, 'SIGCONT');
    await pause(1_000);
    expect(await it.server.pid()).toBe(it.pid);
    expect(await it.server.run('list-sessions', '-F', '#{session_name}')).toBe('main');
    const again = await restart(it.member, await it.member.server(it.server.socket));
    expect(again.after).toMatchObject({ status: 'RUNNING', sessionCount: 1 });
    expect(again.after.pid).not.toBe(it.pid);
  });

  it('that is stopped is let run first when that was asked for, and keeps what was in it', async () => {
    await using it = await world(version);
    await it.server.run('set-environment', '-g', 'KEPT', 'yes');
    await stopProcess(it.pid);
    const { after, notRestored } = await restart(it.member, it.view, { continueStopped: true });
    expect(after).toMatchObject({ status: 'RUNNING', sessionCount: 1 });
    expect(await startTicks(it.pid)).toBeUndefined();
    expect(await it.server.run('show-environment', '-g', 'KEPT')).toBe('KEPT=yes');
    expect(notRestored.map(({ what }) => what)).toEqual(['screen']);
  });

  it('that is stopped ends by force alone, and is made again from its last listing', async () => {
    await using it = await world(version, { columns: 90, rows: 30 });
    await it.server.run('split-window', '-h', '-t', 'main:', '-c', '/usr', 'exec sh');
    // A pane's new process is in its directory a moment after the pane is there.
    const settled = () =>
      eventually(async () => {
        const view = await it.member.server(it.server.socket);
        const [left, right] = view.sessions?.[0]?.windows[0]?.panes ?? [];
        return left?.currentPath === '/' && right?.currentPath === '/usr' ? view : undefined;
      }, 'both panes are in their directories');
    const view = await settled();
    await stopProcess(it.pid);
    const { after, notRestored } = await restart(it.member, view, { force: true });
    expect(await startTicks(it.pid)).toBeUndefined();
    expect(after).toMatchObject({ status: 'RUNNING', sessionCount: 1 });
    const panes = (await settled()).sessions?.[0]?.windows[0]?.panes;
    expect(panes?.map((pane) => [pane.columns, pane.rows])).toEqual([
      [45, 30],
      [44, 30],
    ]);
    expect(notRestored.map(({ what }) => what)).toEqual([
      'changes since the last listing',
      'options',
      'environment',
      'screen',
    ]);
  });
});

describe('a restart', () => {
  const version: Version = '3.3a';

  it('runs the commands that were asked for, word by word, and names what ended and what lives on', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mw-'));
    const script = `setsid sleep 3101 & nohup sleep 3102 >/dev/null 2>&1 & (trap '' HUP; exec sleep 3106) & exec sleep 3100`;
    await using it = await world(version, { command: [script] });
    await it.server.run('split-window', '-d', '-t', 'main:', 'exec sleep 3103');
    await it.server.run('split-window', '-d', '-t', 'main:', 'exec sleep 3104');
    const write = join(folder, 'write');
    await writeFile(
      write,
      '#!/bin/sh\nfor word in "$0" "$@"; do printf "[%s]" "$word"; done > "$OUT.tmp"\nmv "$OUT.tmp" "$OUT"\nexec sleep 3105\n',
      { mode: 0o755 },
    );
    const odd = join(folder, "one; 'word' $(touch hit)");
    await writeFile(odd, `#!/bin/sh\nOUT=${folder}/single exec ${write}\n`, { mode: 0o755 });
    const words = [
      'a b',
      ';',
      'c;',
      '#(touch hit)',
      '$HOME',
      "it's",
      '"',
      '\\',
      'new\nline',
      '',
      '-x',
      '',
    ];
    const view = await it.member.server(it.server.socket);
    const { survivors, notRestored } = await restart(it.member, view, {
      restoreCommands: [
        {
          pane: paneRef(view, 1),
          command: ['/usr/bin/env', `OUT=${folder}/many`, write, ...words],
        },
        { pane: paneRef(view, 2), command: [odd] },
      ],
    });
    try {
      expect(survivors.map(({ command }) => command).sort()).toEqual([
        'sleep 3101',
        'sleep 3102',
        'sleep 3106',
      ]);
      // The shell forks before it becomes a program, so the order of the pids is not ours.
      expect(notRestored.map(({ what, detail }) => `${what} ${detail}`).sort()).toEqual([
        'process main:0.0: sleep 3100',
        'process main:0.0: sleep 3101',
        'process main:0.0: sleep 3102',
        'process main:0.0: sleep 3106',
        expect.stringMatching(/^screen /),
      ]);
      const read = (name: string) =>
        eventually(
          () => readFile(join(folder, name), 'utf8').catch(() => undefined),
          `${name} ran`,
        );
      expect(await read('many')).toBe(`[${write}]${words.map((word) => `[${word}]`).join('')}`);
      expect(await read('single')).toBe(`[${write}]`);
      expect((await readdir(folder)).sort()).toEqual([
        'many',
        "one; 'word' $(touch hit)",
        'single',
        'write',
      ]);
    } finally {
      for (const { pid } of survivors) process.kill(pid, 'SIGKILL');
    }
    await rm(folder, { recursive: true });
  });

  it('says which directories are gone, and starts those panes in the home', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'mw-'));
    await mkdir(join(folder, 'gone'));
    await using it = await world(version);
    await it.server.run('split-window', '-d', '-t', 'main:', '-c', join(folder, 'gone'), 'exec sh');
    await it.server.run('split-window', '-d', '-t', '%1', '-c', folder, 'exec sh');
    await rm(folder, { recursive: true });
    await mkdir(folder);
    const { notRestored, server } = await restart(it.member, it.view);
    expect(notRestored).toEqual([
      { what: expect.stringMatching(/^screen$/), detail: expect.anything() },
      { what: 'directory', detail: expect.stringContaining(join(folder, 'gone')) },
    ]);
    const paths = server.sessions?.[0]?.windows[0]?.panes.map(({ currentPath }) => currentPath);
    // That one was made again.
    expect(paths).toEqual(['/', process.env.HOME, folder]);
    await rm(folder, { recursive: true });
  });

  it('by force of one that is not known for long brings back what was known of it last', async () => {
    const soon = { MUXWARDEN_LISTING_MAX_AGE_MS: '1000', MUXWARDEN_LISTING_INTERVAL_MS: '500' };
    const grace = { MUXWARDEN_LISTING_FRESH_GRACE_MS: '100' };
    await using it = await world(version, {}, installedVersion(version), { ...soon, ...grace });
    await it.server.run('split-window', '-d', '-t', 'main:', 'exec sh');
    await it.member.server(it.server.socket);
    await stopProcess(it.pid);
    const unknown = await eventually(async () => {
      const view = await it.member.server(it.server.socket);
      return view.listing.state === 'UNKNOWN' ? view : undefined;
    }, 'its listing is unknown');
    expect(unknown.sessions).toBeNull();
    const { server, notRestored } = await restart(it.member, unknown, { force: true });
    expect(notRestored[0]?.what).toBe('changes since the last listing');
    expect(server.sessions?.map(({ name, windows }) => [name, windows[0]?.panes.length])).toEqual([
      ['main', 2],
    ]);
  });

  it('without restore begins with one session', async () => {
    await using it = await world(version);
    await it.server.run('new-session', '-d', '-s', 'other');
    const { after } = await restart(it.member, it.view, { restore: 'NONE' });
    expect(after).toMatchObject({ status: 'RUNNING', sessionCount: 1 });
  });

  it('is refused while another one runs, by the id of that one', async () => {
    await using it = await world(version);
    using first = await prepareRestartServer(
      it.member.tmux,
      restartRequest(it.view, { operationId: 'first' }),
    );
    const second = await refusal(restart(it.member, it.view, { operationId: 'second' }));
    expect(second).toBeInstanceOf(OperationInProgressError);
    expect(second).toMatchObject({ operationId: 'first' });
    expect((await first.run()).after.status).toBe('RUNNING');
    first[Symbol.dispose]();
    expect(await refusal(restart(it.member, it.view))).toBeInstanceOf(StaleGenerationError);
    expect(it.member.tmux.locks.holder(serverKey(it.view.ref))).toBeUndefined();
  });

  it('of another life, of none, or of what was never there is refused before anything is sent', async () => {
    await using it = await world(version);
    const [boot, pid, ticks] = (it.view.generation ?? '').split(':');
    const other = `${boot}:${pid}:${Number(ticks) - 1}`;
    const stale = await refusal(restart(it.member, it.view, { expectedGeneration: other }));
    expect(stale).toBeInstanceOf(StaleGenerationError);
    expect(stale).toMatchObject({ expected: other, current: it.view.generation });
    const never = { memberId: 'alice', pathHex: Buffer.from('/nowhere').toString('hex') };
    expect(await refusal(restart(it.member, it.view, { server: never }))).toBeInstanceOf(
      NotFoundError,
    );
    const foreign = { ...paneRef(it.view), generation: other };
    expect(
      await refusal(
        restart(it.member, it.view, { restoreCommands: [{ pane: foreign, command: ['true'] }] }),
      ),
    ).toBeInstanceOf(StaleGenerationError);
    expect(await it.server.pid()).toBe(it.pid);
    await it.server.end();
    const gone = await refusal(restart(it.member, it.view));
    expect(gone).toBeInstanceOf(StaleGenerationError);
    expect(gone).toMatchObject({ current: null });
  });

  it('with no tmux installed is refused, and the server lives on', async () => {
    await using it = await world(version, {}, 'none');
    expect(await refusal(restart(it.member, it.view))).toBeInstanceOf(UnsupportedError);
    expect(await it.server.pid()).toBe(it.pid);
  });

  it('that ended the server and could start none says so, and loses nothing in silence', async () => {
    await using it = await world(version, {}, { binary: '/bin/true', version: '3.3a' });
    const { after, server, notRestored } = await restart(it.member, it.view);
    expect(await startTicks(it.pid)).toBeUndefined();
    expect(after).toMatchObject({ status: 'ABSENT', pid: null });
    expect(server.status).toBe('ABSENT');
    expect(notRestored[0]?.what).toBe('everything');
    await expect(readdir(it.server.directory)).resolves.toEqual([]);
  });

  it('starts nothing where somebody else listens by then', async () => {
    await using it = await world(version);
    using act = await prepareRestartServer(it.member.tmux, restartRequest(it.view));
    await it.server.end();
    await using next = await startTmux({ version, directory: it.server.directory });
    const pid = await next.pid();
    const outcome = await refusal(act.run());
    expect(outcome).toMatchObject({ name: 'StaleGenerationError' });
    expect(await next.pid()).toBe(pid);
  });

  it('that ended is not started again where somebody else began one on its path at once', async () => {
    await using it = await world(version);
    await using others = new AsyncDisposableStack();
    let next: TmuxServer | undefined;
    const { helper } = it.member.tmux;
    const act: typeof helper.act = helper.act.bind(helper);
    const late: typeof helper.act = async (request, options) => {
      if (request.startsWith('await ')) {
        await eventually(async () => (await startTicks(it.pid)) === undefined, 'it has ended');
        next ??= others.use(await startTmux({ version, directory: it.server.directory }));
      }
      return await act(request, options);
    };
    Object.assign(helper, { act: late });
    const { notRestored } = await restart(it.member, it.view);
    expect(notRestored).toEqual([
      { what: 'everything', detail: 'another server was started on its path meanwhile' },
    ]);
    expect(await startTicks((await next?.pid()) ?? 0)).toBeDefined();
  });

  it('leaves as many socket files as there are servers, also after SIGKILL', async () => {
    const count = rounds(20, 200);
    console.log(`socket files: ${count} rounds`);
    await using it = await world(version);
    let view = it.view;
    for (let round = 0; round < count; round += 1) {
      if (round % 10 === 9) {
        process.kill(view.pid ?? expect.fail(), 'SIGKILL');
        const pid = view.pid ?? 0;
        await eventually(async () => (await startTicks(pid)) === undefined, 'it is gone');
        expect(await refusal(restart(it.member, view))).toBeInstanceOf(StaleGenerationError);
        await tmuxClient(version, it.server.socket).run('new-session', '-d');
        view = await it.member.server(it.server.socket);
      }
      const result = await restart(it.member, view);
      expect(result.after.status).toBe('RUNNING');
      view = result.server;
    }
    expect(await readdir(it.server.directory)).toEqual(['default']);
    expect(it.member.tmux.listing.sockets()).toMatchObject({ orphaned: 0 });
  }, 600_000);
});
