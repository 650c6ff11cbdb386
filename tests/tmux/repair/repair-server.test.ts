import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { type RepairServerRequest, repairs } from '../../../src/tmux/acts.ts';
import {
  OperationInProgressError,
  StaleGenerationError,
  TmuxServerStuckError,
  UnsupportedError,
} from '../../../src/tmux/errors.ts';
import type { ServerView } from '../../../src/tmux/model.ts';
import { prepareRepairServer } from '../../../src/tmux/repair/repair-server.ts';
import { type ActingMember, actingMember, installedVersion } from '../../support/acting-member.ts';
import { leaveNoDescriptor } from '../../support/descriptors.ts';
import { stopProcess } from '../../support/stop-process.ts';
import {
  eventually,
  presentVersions,
  startTicks,
  startTmux,
  type Version,
} from '../../support/tmux-server.ts';

async function world(version: Version) {
  const server = await startTmux({ version });
  const member = actingMember({
    directory: server.directory,
    installed: installedVersion(version),
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

async function stop({ member, server, pid }: Awaited<ReturnType<typeof world>>) {
  await stopProcess(pid);
  const view = await member.server(server.socket);
  expect(view.status).toBe('STOPPED');
  return view;
}

/** From now on its server is stopped again by somebody whenever it was let run. */
function hold({ member: { tmux }, pid }: Awaited<ReturnType<typeof world>>): void {
  const { helper } = tmux;
  const act = helper.act.bind(helper);
  helper.act = async (...request) => {
    const answer = await act(...request);
    await stopProcess(pid);
    return answer;
  };
}

function prepare(
  { tmux }: ActingMember,
  view: ServerView,
  repair: RepairServerRequest['repair'],
  operationId = 'operation',
) {
  const expectedGeneration = view.generation ?? '';
  return prepareRepairServer(tmux, { server: view.ref, expectedGeneration, repair, operationId });
}

async function repair(...asked: Parameters<typeof prepare>) {
  using act = await prepare(...asked);
  return await act.run();
}

const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => 'done',
    (error: unknown) => error,
  );
const unsupported = (message: RegExp) =>
  expect.objectContaining({ name: 'UnsupportedError', message: expect.stringMatching(message) });

describe.each(presentVersions)('a server of tmux %s', (version) => {
  it('that lost its socket makes it again: the same process, session and ids', async () => {
    await using it = await world(version);
    await rm(it.server.socket);
    const lost = await it.member.server(it.server.socket);
    expect(lost).toMatchObject({ status: 'RUNNING', reason: 'SOCKET_LOST', pid: it.pid });
    const { after, ended } = await repair(it.member, lost, 'RECREATE_SOCKET');
    expect(ended).toBe(false);
    expect(after).toMatchObject({ pid: it.pid, status: 'RUNNING', sessionCount: 1 });
    expect(await it.server.pid()).toBe(it.pid);
    const now = await it.member.server(it.server.socket);
    expect(now).toMatchObject({ generation: it.view.generation, reason: null, ref: it.view.ref });
    expect(await readdir(it.server.directory)).toEqual(['default']);
  });

  it('that is stopped runs on: the same process and session', async () => {
    await using it = await world(version);
    const stopped = await stop(it);
    const { after, ended } = await repair(it.member, stopped, 'CONTINUE_STOPPED');
    expect(ended).toBe(false);
    expect(after).toMatchObject({ pid: it.pid });
    expect(after.status).not.toBe('STOPPED');
    expect(await it.server.run('list-sessions', '-F', '#{session_name}')).toBe('main');
  });
});

describe('a repair', () => {
  const version: Version = '3.5a';

  it.each(repairs)('%s of a healthy server says that there is nothing to repair', async (name) => {
    await using it = await world(version);
    const limits = () => execa('prlimit', ['--pid', String(it.pid), '--nofile', '--raw']);
    const before = [(await limits()).stdout, (await stat(it.server.socket)).ino];
    expect(await refusal(repair(it.member, it.view, name))).toEqual(
      unsupported(/nothing to repair/),
    );
    expect([(await limits()).stdout, (await stat(it.server.socket)).ino]).toEqual(before);
    expect(await it.server.pid()).toBe(it.pid);
  });

  it.each(['RAISE_DESCRIPTOR_LIMIT', 'RECREATE_SOCKET'] as const)(
    '%s sends a stopped server nothing',
    async (name) => {
      await using it = await world(version);
      await rm(it.server.socket);
      await stop(it);
      const stuck = await refusal(repair(it.member, it.view, name));
      expect(stuck).toBeInstanceOf(TmuxServerStuckError);
      expect(stuck).toMatchObject({ pid: it.pid, status: 'STOPPED', mayStillHappen: false });
      process.kill(it.pid, 'SIGCONT');
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(await readdir(it.server.directory)).toEqual([]);
    },
  );

  it('of another life, or of none, is stale', async () => {
    await using it = await world(version);
    const [boot, pid, ticks] = (it.view.generation ?? '').split(':');
    const other = { ...it.view, generation: `${boot}:${pid}:${Number(ticks) - 1}` };
    const current = it.view.generation;
    const stale = await refusal(repair(it.member, other, 'CONTINUE_STOPPED'));
    expect(stale).toBeInstanceOf(StaleGenerationError);
    expect(stale).toMatchObject({ expected: other.generation, current });
    await it.server.end();
    const gone = await refusal(repair(it.member, it.view, 'RECREATE_SOCKET'));
    expect(gone).toBeInstanceOf(StaleGenerationError);
    expect(gone).toMatchObject({ current: null });
  });

  it('is refused while another act on the server runs, by the id of that one', async () => {
    await using it = await world(version);
    await stop(it);
    using _first = await prepare(it.member, it.view, 'CONTINUE_STOPPED', 'first');
    const second = await refusal(repair(it.member, it.view, 'CONTINUE_STOPPED', 'second'));
    expect(second).toBeInstanceOf(OperationInProgressError);
    expect(second).toMatchObject({ operationId: 'first' });
  });

  it('whose server ended before it was sent says so, and touches nobody else', async () => {
    await using it = await world(version);
    await stop(it);
    using act = await prepare(it.member, it.view, 'CONTINUE_STOPPED');
    process.kill(it.pid, 'SIGKILL');
    await eventually(async () => (await startTicks(it.pid)) === undefined, 'it is gone');
    await using next = await startTmux({ version, directory: it.server.directory });
    const pid = await next.pid();
    expect(await refusal(act.run())).toBeInstanceOf(StaleGenerationError);
    expect(await next.pid()).toBe(pid);
  });

  it('that lets a server run which was told to end says that it ended', async () => {
    await using it = await world(version);
    const stopped = await stop(it);
    process.kill(it.pid, 'SIGTERM');
    const { after, ended } = await repair(it.member, stopped, 'CONTINUE_STOPPED');
    // It may have been seen running in the moment before.
    expect([ended, after.status].join(' ')).toMatch(/^(true ABSENT|false (RUNNING|UNRESPONSIVE))$/);
    await eventually(async () => (await startTicks(it.pid)) === undefined, 'it is gone');
  });

  it('that does not let it run, for somebody holds it, is ETMUXSTUCK', {
    timeout: 30_000,
  }, async () => {
    await using it = await world(version);
    const stopped = await stop(it);
    hold(it);
    const stuck = await refusal(repair(it.member, stopped, 'CONTINUE_STOPPED'));
    expect(stuck).toBeInstanceOf(TmuxServerStuckError);
    expect(stuck).toMatchObject({ pid: it.pid, status: 'STOPPED', mayStillHappen: true });
  });
});

describe('the socket of a server', () => {
  const version: Version = '3.3a';

  it('is not taken from the server that has it by now; that one is not touched', async () => {
    await using it = await world(version);
    await rm(it.server.socket);
    await using thief = await startTmux({ version: '3.8', directory: it.server.directory });
    const pid = await thief.pid();
    const listing = await it.member.tmux.refresh();
    const lost = listing.servers?.find(({ reason }) => reason === 'PATH_TAKEN') ?? it.view;
    expect(lost).toMatchObject({ pid: it.pid, generation: it.view.generation });
    expect(await refusal(repair(it.member, lost, 'RECREATE_SOCKET'))).toEqual(
      unsupported(/another tmux server listens/i),
    );
    // Nor by the id that the path has, which is the other server's now.
    expect(await refusal(repair(it.member, it.view, 'RECREATE_SOCKET'))).toMatchObject({
      name: 'StaleGenerationError',
    });
    expect(await thief.pid()).toBe(pid);
    await thief.end();
    const alone = await eventually(async () => {
      const { servers } = await it.member.tmux.refresh();
      return servers?.find(({ reason, pid: of }) => reason === 'SOCKET_LOST' && of === it.pid);
    }, 'it is alone again');
    expect((await repair(it.member, alone, 'RECREATE_SOCKET')).after.pid).toBe(it.pid);
    expect(await it.server.pid()).toBe(it.pid);
  });

  it('is not taken from one that began to listen after the last look', async () => {
    await using it = await world(version);
    await rm(it.server.socket);
    const lost = await it.member.server(it.server.socket);
    using act = await prepare(it.member, lost, 'RECREATE_SOCKET');
    await using thief = await startTmux({ version, directory: it.server.directory });
    const pid = await thief.pid();
    expect(await refusal(act.run())).toEqual(unsupported(new RegExp(`process ${pid} listens`)));
    expect(await thief.pid()).toBe(pid);
    expect(await startTicks(it.pid)).toBeDefined();
  });

  it('comes back with the directory that a cleaner took along, and over a stale file', async () => {
    await using it = await world(version);
    await rm(it.server.directory, { recursive: true });
    const lost = await it.member.server(it.server.socket);
    expect(lost.reason).toBe('SOCKET_LOST');
    expect((await repair(it.member, lost, 'RECREATE_SOCKET')).after.status).toBe('RUNNING');
    expect((await stat(it.server.directory)).mode & 0o777).toBe(0o700);
    expect(await it.server.pid()).toBe(it.pid);

    await rm(it.server.socket);
    await execa('perl', [
      '-MSocket',
      '-e',
      'socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($ARGV[0])) or die $!',
      it.server.socket,
    ]);
    const over = await it.member.server(it.server.socket);
    expect(over.reason).toBe('SOCKET_LOST');
    await repair(it.member, over, 'RECREATE_SOCKET');
    expect(await it.server.pid()).toBe(it.pid);
  });

  it('is not made over a file of the member’s that stands there', async () => {
    await using it = await world(version);
    await rm(it.server.socket);
    await writeFile(it.server.socket, 'precious');
    const lost = await it.member.server(it.server.socket);
    expect(await refusal(repair(it.member, lost, 'RECREATE_SOCKET'))).toEqual(
      unsupported(/not a socket/),
    );
    expect((await stat(it.server.socket)).size).toBe(8);
  });

  it('is not made in a directory that is not safe by now', async () => {
    await using it = await world(version);
    await rm(it.server.socket);
    const lost = await it.member.server(it.server.socket);
    using act = await prepare(it.member, lost, 'RECREATE_SOCKET');
    const aside = `${it.server.directory}-aside`;
    await rename(it.server.directory, aside);
    await mkdir(it.server.directory, { mode: 0o777 });
    await execa('chmod', ['0777', it.server.directory]);
    expect(await refusal(act.run())).toEqual(unsupported(/mode 0777/));
    expect(await readdir(it.server.directory)).toEqual([]);
    await rm(aside, { recursive: true });
  });
});

describe('the limit of open files', () => {
  it('gives a server near its limit of open files a higher one, and it keeps all that it has', async () => {
    await using it = await world('3.8');
    await leaveNoDescriptor(it.pid, { hard: 4096, spare: 2 });
    const near = await it.member.server(it.server.socket);
    const { after } = await repair(it.member, near, 'RAISE_DESCRIPTOR_LIMIT');
    expect(after).toMatchObject({ pid: it.pid, status: 'RUNNING', sessionCount: 1 });
    const now = await it.member.server(it.server.socket);
    expect(now).toMatchObject({ openFilesLimit: 1024, reason: null, generation: near.generation });
  });

  it('is not raised where the hard limit is too low; that is said, with what root can do, and nothing is touched', async () => {
    await using it = await world('3.5a');
    await leaveNoDescriptor(it.pid, { hard: 20 });
    const full = await it.member.server(it.server.socket);
    const refused = await refusal(repair(it.member, full, 'RAISE_DESCRIPTOR_LIMIT'));
    expect(refused).toBeInstanceOf(UnsupportedError);
    expect(refused).toMatchObject({
      message: expect.stringMatching(
        new RegExp(`hard limit of open files is 20.*prlimit --pid ${it.pid} --nofile=1024:1024`),
      ),
    });
    const { stdout } = await execa('prlimit', [
      '--pid',
      String(it.pid),
      '--nofile',
      '--raw',
      '-o',
      'HARD',
    ]);
    expect(stdout).toContain('20');
  });
});
