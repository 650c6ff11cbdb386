import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { eventually, startTicks, tmuxBinary } from '../support/tmux-server.ts';
import type { User } from './accounts.ts';
import { type Lab, startLab } from './lab.ts';
import { addMembers, lookAtMembers, refresh } from './members-page.ts';
import type { Service } from './service.ts';

/**
 * What is started for a member through sudo is as if he had started it: nothing of the service is in
 * it, and it outlives the service, however that ends.
 */

const canary = 'canary-5f1d9c';
const restartServer = `mutation ($input: RestartTmuxServerInput!) {
  restartTmuxServer(input: $input) {
    __typename
    ... on UserError { code message }
    ... on RestartTmuxServerPayload {
      notRestored { what detail }
      tmuxServer { pid sessions { windows { panes { id pid currentPath } } } }
    }
  }
}`;
const restartPane = `mutation ($input: RestartPaneInput!) {
  restartPane(input: $input) {
    __typename
    ... on UserError { code message }
    ... on WorkingDirectoryMissingError { path }
    ... on RestartPanePayload { pane { pid currentPath } }
  }
}`;

describe.skipIf(lacks('root', 'sudo', 'visudo', 'tmux'))('started for a member', () => {
  let lab: Lab;
  let service: Service;
  let pid: number;
  let panePid: number;
  let keys = 0;

  beforeAll(async () => {
    lab = await startLab();
    service = await lab.startService({
      ownGroup: true,
      environment: {
        MUXWARDEN_TMUX_BIN: tmuxBinary('3.5a') ?? '',
        MUXWARDEN_LISTING_INTERVAL_MS: '500',
        SECRET: canary,
        TMUX: `/tmp/${canary},1,0`,
        PERL5OPT: '',
      },
    });
    await addMembers(lab, service, ['alice', 'bob']);
  }, 120_000);
  afterAll(() => lab?.[Symbol.asyncDispose]());

  const alice = () => lab.users.alice;
  const key = () => `k-${++keys}`;
  const memberId = async (login: string) =>
    (await lookAtMembers(service)).members.get(login)?.id ?? expect.fail(login);

  interface Pane {
    readonly id: string;
    readonly pid: number;
    readonly currentPath: string;
  }

  async function ask<Answer>(document: string, input: object): Promise<Answer> {
    const { data, errors } = await service.query<Record<string, Answer>>(document, { input });
    expect(errors).toEqual([]);
    return Object.values(data ?? {})[0] ?? expect.fail();
  }

  const procText = async (of: number, file: string) => readFile(`/proc/${of}/${file}`, 'utf8');
  const statusOf = async (of: number) =>
    Object.fromEntries(
      (await procText(of, 'status')).split('\n').map((line) => line.split(/:\s*/, 2)),
    ) as Record<string, string>;

  /** Once a new pane's process, which begins as a copy of tmux, has become its program. */
  const untilRuns = (of: number) =>
    eventually(
      async () => (await readlink(`/proc/${of}/exe`)) !== tmuxBinary('3.5a'),
      'the program of the pane runs',
    );

  /** A pane's program that the user started without us, for comparison. */
  async function ownPane(user: User): Promise<number> {
    const server = await lab.startTmuxAs(user, { version: '3.5a', name: 'own' });
    const own = Number(await server.run('display-message', '-p', '#{pane_pid}'));
    await untilRuns(own);
    return own;
  }

  it('a tmux server has nothing of the service in it, nor have its panes', async () => {
    await lab.startTmuxAs(alice(), { version: '3.3a' });
    const id = await memberId('alice');
    const [server] = (await refresh(service, id)).tmuxServers ?? [];
    const { data } = await service.query<{ node: { generation: string } }>(
      'query ($id: ID!) { node(id: $id) { ... on TmuxServer { generation } } }',
      { id: server?.id },
    );
    interface Restarted {
      readonly notRestored: readonly { readonly what: string }[];
      readonly tmuxServer: {
        readonly pid: number;
        readonly sessions: readonly { windows: readonly { panes: readonly Pane[] }[] }[];
      };
    }
    const restarted = await ask<Restarted>(restartServer, {
      ...{ tmuxServerId: server?.id, expectedGeneration: data?.node.generation },
      idempotencyKey: key(),
    });
    expect(restarted).toMatchObject({ __typename: 'RestartTmuxServerPayload' });
    pid = restarted.tmuxServer.pid;
    panePid = restarted.tmuxServer.sessions[0]?.windows[0]?.panes[0]?.pid ?? expect.fail();
    await untilRuns(panePid);
    const own = await ownPane(alice());

    for (const process of [pid, panePid]) {
      const environ = (await procText(process, 'environ')).split('\0').filter(Boolean);
      const names = environ.map((each) => each.split('=', 1)[0] ?? '').sort();
      const allowed =
        'HOME LANG LC_CTYPE LOGNAME OLDPWD PATH PWD SHELL SHLVL TERM TERM_PROGRAM TERM_PROGRAM_VERSION TMUX TMUX_PANE USER XDG_RUNTIME_DIR _';
      expect(names.filter((name) => !allowed.split(' ').includes(name))).toEqual([]);
      expect(environ.join('\n')).not.toMatch(/canary|MUXWARDEN_|SUDO_|postgres|mw_/);
      const status = await statusOf(process);
      const { uid, gid } = alice();
      const { stdout: groups } = await execa('id', ['-G', alice().name]);
      expect(status).toMatchObject({
        Uid: [uid, uid, uid, uid].join('\t'),
        Gid: [gid, gid, gid, gid].join('\t'),
        ...{ CapInh: '0000000000000000', CapPrm: '0000000000000000' },
        ...{ CapEff: '0000000000000000', CapAmb: '0000000000000000', NoNewPrivs: '0' },
      });
      expect(status.Groups?.trim().split(' ').sort()).toEqual(groups.split(' ').sort());
    }
    const pane = await statusOf(panePid);
    const compared = await statusOf(own);
    for (const same of ['Umask', 'SigIgn', 'SigBlk', 'NoNewPrivs', 'Seccomp', 'CapBnd'])
      expect([same, pane[same]]).toEqual([same, compared[same]]);
    // Of core files sudo leaves nobody more than none; of open files a login begins with 1,024.
    const limits = async (of: number) =>
      (await procText(of, 'limits')).replace(/^Max core .*\n/m, '').replace(/ +/g, ' ');
    expect(await limits(panePid)).toBe(
      (await limits(own)).replace(/^(Max open files) \d+/m, '$1 1024'),
    );
    expect(await procText(panePid, 'oom_score_adj')).toBe(await procText(own, 'oom_score_adj'));

    const held = await Promise.all(
      (await readdir(`/proc/${panePid}/fd`)).map((fd) => readlink(`/proc/${panePid}/fd/${fd}`)),
    );
    expect(held.filter((target) => !/^\/dev\/(pts\/\d+|tty)$/.test(target))).toEqual([]);
    const openIn = async (of: number) =>
      Promise.all(
        (await readdir(`/proc/${of}/fd`)).map((fd) =>
          readlink(`/proc/${of}/fd/${fd}`).catch(() => ''),
        ),
      );
    const ours = new Set(
      (await openIn(service.pid)).filter((target) => /^(pipe|socket|\/(?!dev\/))/.test(target)),
    );
    expect((await openIn(pid)).filter((target) => ours.has(target))).toEqual([]);
    const [, , , , , session] = (await procText(pid, 'stat')).split(' ');
    expect(Number(session)).not.toBe(Number((await procText(service.pid, 'stat')).split(' ')[5]));
  });

  it('a pane is not, where its directory is gone, no directory, a dangling link or closed', async () => {
    const folder = join(alice().home, 'work');
    const steps: readonly [string, readonly string[]][] = [
      ['gone', ['true']],
      ['a file', ['touch', folder]],
      ['a dangling link', ['ln', '-s', '/nowhere/at/all', folder]],
      ['closed', ['sh', '-c', `mkdir ${folder} && chmod 000 ${folder}`]],
    ];
    const tmux = await lab.startTmuxAs(alice(), { version: '3.5a', name: 'work' });
    await lab.runAs(alice(), ['mkdir', folder]);
    await tmux.run('respawn-pane', '-k', '-c', folder, 'exec sleep 1000');
    const asleep = Number(await tmux.run('display-message', '-p', '#{pane_pid}'));
    await eventually(
      async () => (await readlink(`/proc/${asleep}/cwd`)) === folder || undefined,
      'it is there',
    );
    await lab.runAs(alice(), ['rm', '-r', folder]);
    const id = await memberId('alice');
    const seen = (await refresh(service, id)).tmuxServers?.find(({ socketPath }) =>
      socketPath.endsWith('/work'),
    );
    const paneId = seen?.sessions?.[0]?.windows[0]?.panes[0]?.id;
    for (const [kind, make] of steps) {
      await lab.runAs(alice(), make);
      const answer = await ask(restartPane, { paneId, idempotencyKey: key() });
      expect([kind, answer]).toEqual([
        kind,
        expect.objectContaining({ code: 'ENOCWD', path: folder }),
      ]);
      expect(await startTicks(asleep)).toBeDefined();
      await lab.runAs(alice(), ['rm', '-rf', folder]);
    }
    // A folder of bob's is there, and not alice's to enter.
    await lab.runAs(alice(), ['ln', '-s', lab.users.bob.home, folder]);
    expect(await ask(restartPane, { paneId, idempotencyKey: key() })).toMatchObject({
      code: 'ENOCWD',
    });
    await lab.runAs(alice(), ['rm', folder]);
    await lab.runAs(alice(), ['mkdir', folder]);
    const done = await ask<{ pane: Pane }>(restartPane, { paneId, idempotencyKey: key() });
    expect(done).toMatchObject({ __typename: 'RestartPanePayload', pane: { currentPath: folder } });
    expect(await readlink(`/proc/${done.pane.pid}/cwd`)).toBe(folder);
  });

  it('outlives the service, whose whole process group is ended by SIGTERM and by SIGKILL', async () => {
    const alive = async () => [await startTicks(pid), await startTicks(panePid)];
    const before = await alive();
    expect(before).not.toContain(undefined);
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      // Clients that watch are of the service, and go with it.
      await eventually(
        async () => ((await lab.sudoProcesses()).length > 0 ? true : undefined),
        'a helper runs',
      );
      process.kill(-service.pid, signal);
      await eventually(
        async () => ((await startTicks(service.pid)) === undefined ? true : undefined),
        'the service is gone',
      );
      expect([signal, await alive()]).toEqual([signal, before]);
      if (signal === 'SIGKILL') continue;
      service = await lab.startService({ ownGroup: true });
      const again = await eventually(async () => {
        const seen = await refresh(service, await memberId('alice'));
        return seen.listing.state === 'FRESH' ? seen : undefined;
      }, 'it looks again');
      expect(again.tmuxServers?.map((server) => server.pid)).toContain(pid);
    }
    expect(await alive()).toEqual(before);
  }, 90_000);

  it('leaves nothing in a home that is not its owner’s', async () => {
    for (const user of [lab.users.alice, lab.users.bob, lab.users.carol]) {
      const words = [
        user.home,
        '-mindepth',
        '1',
        '(',
        '!',
        '-user',
        user.name,
        '-o',
        '!',
        '-group',
        user.name,
        ')',
      ];
      expect((await execa('find', words)).stdout).toBe('');
    }
    // Those who started nothing in theirs have nothing in it.
    for (const { home } of [lab.users.bob, lab.users.carol])
      expect(await readdir(home)).toEqual([]);
  });
});
