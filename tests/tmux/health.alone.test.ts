import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Reason,
  reasons,
  type ServerStatus,
  type ServerView,
  serverStatuses,
} from '../../src/tmux/model.ts';
import { prepareRestartServer } from '../../src/tmux/restart/restart-server.ts';
import {
  type ActingMember,
  actingMember,
  installedVersion,
  restartRequest,
} from '../support/acting-member.ts';
import { leaveNoDescriptor } from '../support/descriptors.ts';
import { lacks } from '../support/needs.ts';
import { library, patchedTmux } from '../support/patched-tmux.ts';
import { standInHelper } from '../support/stand-in-helper.ts';
import { stopProcess } from '../support/stop-process.ts';
import { eventually, startTicks, tmuxBinary, type Version } from '../support/tmux-server.ts';
import { Member, type StartedServer } from './member-helper/member.ts';

/**
 * Every state that a server is shown in, and every reason, brought about for real: real servers of an
 * ordinary Linux user, through the real helper. The last test fails when the schema has a state or a
 * reason that none of these saw. Alone, for one of them needs a whole core. docs/health.md is the same
 * table for people.
 */

const version: Version = '3.3a';
const seen = new Set<ServerStatus | Reason>();

interface Expected {
  readonly status: ServerStatus | readonly ServerStatus[];
  /** Of the server, or of its listing where that alone is in trouble. */
  readonly reason: Reason | null;
}

describe.skipIf(lacks('root', 'tmux', 'setpriv', 'gcc', 'patchelf'))(
  'the health of a server',
  () => {
    let member: Member;
    let helper: string;
    beforeAll(async () => {
      member = await Member.ordinary();
      helper = await member.helper();
    });
    afterAll(() => member[Symbol.asyncDispose]());

    /** A folder of its own below the member's, and what looks into it. */
    async function place(name: string) {
      await member.folder(name);
      const directory = member.path(name);
      const acting = actingMember({ directory, installed: installedVersion('3.8'), helper });
      return {
        directory,
        acting,
        path: (socket: string) => `${directory}/${socket}`,
        server: (of: Version = version, binary?: string) =>
          member.server(of, `${name}/s`, binary ?? tmuxBinary(of)),
        [Symbol.asyncDispose]: () => acting[Symbol.asyncDispose](),
      };
    }

    async function look({ tmux }: ActingMember, socket: string): Promise<ServerView | undefined> {
      await tmux.refresh();
      return tmux.server({ memberId: 'alice', pathHex: Buffer.from(socket).toString('hex') });
    }

    /** Looks until it is so; other tests keep the machine busy. */
    async function shows(acting: ActingMember, socket: string, expected: Expected) {
      const statuses = [expected.status].flat();
      let last: unknown;
      const is = (view: ServerView) =>
        statuses.includes(view.status) &&
        (expected.reason === null
          ? view.reason === null
          : view.reason === expected.reason || view.listing.reason === expected.reason);
      const view = await eventually(
        async () => {
          const now = await look(acting, socket);
          last = now && { status: now.status, reason: now.reason, detail: now.detail };
          return now && is(now) ? now : undefined;
        },
        `${statuses} ${expected.reason}`,
        30_000,
      ).catch((error: unknown) => {
        throw new Error(`it was ${JSON.stringify(last)}`, { cause: error });
      });
      seen.add(view.status);
      if (expected.reason !== null) seen.add(expected.reason);
      return view;
    }

    /** One that does nothing else for seconds: a format that asks for itself a million times over. */
    async function keepBusy({ socket, tmux }: StartedServer): Promise<ChildProcess> {
      const depth = 27;
      for (let level = 0; level < depth; level++)
        await tmux('set-option', '-s', `@f${level}`, `#{E:@f${level + 1}}#{E:@f${level + 1}}`);
      await tmux('set-option', '-s', `@f${depth}`, 'x');
      const words = ['-S', socket, 'display-message', '-p', '#{E:@f0}'];
      return spawn(tmuxBinary(version) ?? '', words, {
        stdio: 'ignore',
        env: { PATH: '/usr/bin:/bin', TERM: 'xterm' },
        uid: member.runner.uid,
        gid: member.runner.gid,
      });
    }

    it('that answers is RUNNING; nobody has looked yet before that', async () => {
      await using at = await place('fine');
      await using server = await at.server();
      expect(at.acting.tmux.peek()).toMatchObject({
        servers: null,
        status: { state: 'UNKNOWN', reason: 'NOT_YET_ASKED' },
      });
      seen.add('NOT_YET_ASKED');
      const view = await shows(at.acting, server.socket, { status: 'RUNNING', reason: null });
      expect(view).toMatchObject({ pid: server.pid, listing: { state: 'FRESH' } });
    });

    it('that is stopped is STOPPED, and nothing is asked of it', async () => {
      await using at = await place('stopped');
      await using server = await at.server();
      await stopProcess(server.pid);
      await shows(at.acting, server.socket, { status: 'STOPPED', reason: null });
      process.kill(server.pid, 'SIGCONT');
      await shows(at.acting, server.socket, { status: 'RUNNING', reason: null });
    });

    it('that has no descriptor left is UNRESPONSIVE, DESCRIPTORS_EXHAUSTED', async () => {
      await using at = await place('mute');
      await using server = await at.server();
      await look(at.acting, server.socket);
      await leaveNoDescriptor(server.pid, { run: (file, words) => member.run(file, words) });
      await shows(at.acting, server.socket, {
        status: ['UNRESPONSIVE', 'SPINNING'],
        reason: 'DESCRIPTORS_EXHAUSTED',
      });
    });

    it('that is busy and answers late is UNRESPONSIVE by TIMEOUT, and SPINNING while it takes a core', async () => {
      await using at = await place('busy');
      await using server = await at.server();
      await look(at.acting, server.socket);
      const client = await keepBusy(server);
      await shows(at.acting, server.socket, { status: 'UNRESPONSIVE', reason: 'TIMEOUT' });
      // A core of its own is what a busy machine would not have for it. Not every container allows it.
      await execa('chrt', ['--fifo', '--pid', '1', String(server.pid)], { reject: false });
      await shows(at.acting, server.socket, { status: 'SPINNING', reason: 'TIMEOUT' });
      client.kill('SIGKILL');
    });

    it('that is busy with a full queue of connections is BACKLOG_FULL', async () => {
      await using at = await place('full');
      await using server = await at.server();
      await look(at.acting, server.socket);
      const client = await keepBusy(server);
      await shows(at.acting, server.socket, {
        status: ['UNRESPONSIVE', 'SPINNING'],
        reason: 'TIMEOUT',
      });
      await member.run('/usr/bin/perl', [
        '-MSocket=:DEFAULT,SOCK_NONBLOCK',
        '-e',
        'while (1) { socket(my $s, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0); connect($s, pack_sockaddr_un($ARGV[0])) or last; push @held, $s }',
        server.socket,
      ]);
      await shows(at.acting, server.socket, {
        status: ['UNRESPONSIVE', 'SPINNING'],
        reason: 'BACKLOG_FULL',
      });
      client.kill('SIGKILL');
    });

    it('that was killed is ABSENT and leaves a STALE_SOCKET', async () => {
      await using at = await place('killed');
      await using server = await at.server();
      await look(at.acting, server.socket);
      process.kill(server.pid, 'SIGKILL');
      const view = await shows(at.acting, server.socket, {
        status: 'ABSENT',
        reason: 'STALE_SOCKET',
      });
      expect(view).toMatchObject({ pid: null, generation: null, sessions: [] });
    });

    it('that is a zombie is ABSENT', async () => {
      await using at = await place('zombie');
      const socket = at.path('s');
      // Its parent never asks how it ended.
      const parent = spawn(
        '/usr/bin/perl',
        ['-e', 'if (!fork) { exec @ARGV } sleep 1000', tmuxBinary('3.8') ?? '', '-D', '-S', socket],
        { stdio: 'ignore', uid: member.runner.uid, gid: member.runner.gid },
      );
      const { pid } = await shows(at.acting, socket, { status: 'RUNNING', reason: null });
      process.kill(pid ?? expect.fail(), 'SIGKILL');
      await shows(at.acting, socket, { status: 'ABSENT', reason: 'STALE_SOCKET' });
      const { stdout } = await execa('ps', ['-o', 'stat=', '-p', String(pid)], { reject: false });
      expect(stdout).toMatch(/^Z/);
      parent.kill('SIGKILL');
      await once(parent, 'exit');
    });

    it('whose socket file is gone is RUNNING, SOCKET_LOST', async () => {
      await using at = await place('lost');
      await using server = await at.server();
      await unlink(server.socket);
      const view = await shows(at.acting, server.socket, {
        status: 'RUNNING',
        reason: 'SOCKET_LOST',
      });
      expect(view.pid).toBe(server.pid);
    });

    it('that lost its path to another is shown beside it, and acts on one never hit the other', async () => {
      await using at = await place('taken');
      await using first = await at.server();
      await look(at.acting, first.socket);
      await unlink(first.socket);
      await using second = await at.server('3.8');
      const present = await shows(at.acting, first.socket, { status: 'RUNNING', reason: null });
      expect(present.pid).toBe(second.pid);
      const taken = at.acting.tmux.peek().servers?.find(({ reason }) => reason === 'PATH_TAKEN');
      expect(taken).toMatchObject({ pid: first.pid, status: 'RUNNING' });
      seen.add('PATH_TAKEN');
      const refused = await prepareRestartServer(
        at.acting.tmux,
        restartRequest(taken ?? expect.fail()),
      ).catch((error: unknown) => error);
      expect(refused).toMatchObject({ name: 'UnsupportedError' });
      using act = await prepareRestartServer(at.acting.tmux, restartRequest(present));
      const { after } = await act.run();
      await member.note(after.pid ?? expect.fail());
      expect(await startTicks(second.pid)).toBeUndefined();
      expect(await startTicks(first.pid)).toBe(first.ticks);
      await unlink(first.socket);
      const { servers } = await at.acting.tmux.refresh();
      expect(servers?.map(({ pid }) => pid).sort()).toEqual([first.pid, after.pid].sort());
    });

    it.each(['file', 'program'])('in whose place a %s is: UNKNOWN, NOT_TMUX', async (what) => {
      await using at = await place(`odd-${what}`);
      const listen =
        'socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($ARGV[0])) or die $!; listen($s, 8); sleep 1000';
      const child =
        what === 'program'
          ? spawn('/usr/bin/perl', ['-MSocket', '-e', listen, at.path('s')], {
              stdio: 'ignore',
              uid: member.runner.uid,
              gid: member.runner.gid,
            })
          : undefined;
      if (what === 'file') await writeFile(at.path('s'), '');
      await shows(at.acting, at.path('s'), { status: 'UNKNOWN', reason: 'NOT_TMUX' });
      child?.kill('SIGKILL');
    });

    it('in a directory that is closed, or open to others, is UNKNOWN, and kept in the list', async () => {
      await using at = await place('shut');
      await using server = await at.server();
      await look(at.acting, server.socket);
      await chmod(at.directory, 0o777);
      await shows(at.acting, server.socket, { status: 'UNKNOWN', reason: 'UNSAFE_DIRECTORY' });
      await chmod(at.directory, 0o000);
      const view = await shows(at.acting, server.socket, { status: 'UNKNOWN', reason: 'EACCES' });
      expect(view.pid).toBe(server.pid);
      await chmod(at.directory, 0o700);
      await shows(at.acting, server.socket, { status: 'RUNNING', reason: null });
    });

    it('whose socket is another user’s is UNKNOWN, FOREIGN_OWNER', async () => {
      await using at = await place('foreign');
      await execa('perl', [
        '-MSocket',
        '-e',
        'socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($ARGV[0])) or die $!',
        at.path('s'),
      ]);
      await shows(at.acting, at.path('s'), { status: 'UNKNOWN', reason: 'FOREIGN_OWNER' });
    });

    it('whose path has more than 107 bytes is UNKNOWN, PATH_TOO_LONG, with the excess', async () => {
      await using at = await place('long');
      const path = at.path('x'.repeat(108 - at.directory.length - 1));
      await writeFile(path, '');
      const view = await shows(at.acting, path, { status: 'UNKNOWN', reason: 'PATH_TOO_LONG' });
      expect(view.detail).toMatch(/1 bytes over the limit of 107/);
    });

    it('whose binary may be run but not read is UNKNOWN, BINARY_UNREADABLE', async () => {
      await using at = await place('unreadable');
      const binary = member.path('unreadable-tmux');
      await copyFile(tmuxBinary(version) ?? '', binary);
      await chmod(binary, 0o711);
      await using server = await at.server(version, binary);
      await shows(at.acting, server.socket, { status: 'UNKNOWN', reason: 'BINARY_UNREADABLE' });
    });

    it('whose client says that it is of another version is RUNNING, VERSION_MISMATCH', async () => {
      await using at = await place('apart');
      const binary = member.path('apart-tmux');
      const defines = { TIMES: 1, STATUS: 1 };
      await patchedTmux('3.8', binary, await library(member.directory, 'refusing-client', defines));
      await using server = await at.server('3.8', binary);
      await shows(at.acting, server.socket, { status: 'RUNNING', reason: 'VERSION_MISMATCH' });
    });

    it('whose answer is too large, or makes no sense, is RUNNING with an unknown listing', async () => {
      await using at = await place('alias');
      await using server = await at.server('3.7c');
      const alias = (text: string) => server.tmux('set-option', '-s', 'command-alias[90]', text);
      await alias('list-clients=show-options -g');
      await shows(at.acting, server.socket, { status: 'RUNNING', reason: 'MALFORMED_ANSWER' });
      await writeFile(member.path('big'), 'x'.repeat(3 << 20));
      await server.tmux('load-buffer', '-b', 'big', member.path('big'));
      await alias('list-sessions=show-buffer -b big ; display-message -p');
      await shows(at.acting, server.socket, { status: 'RUNNING', reason: 'OUTPUT_TOO_LARGE' });
    });

    it('is UNKNOWN without a helper, and with one that fails', async () => {
      await using at = await place('helpless');
      await using server = await at.server();
      const moved = `${helper}-moved`;
      await look(at.acting, server.socket);
      await using failing = await standInHelper('exit 1');
      await chmod(failing.path, 0o755);
      await using other = actingMember({
        directory: at.directory,
        installed: undefined,
        helper: failing.path,
      });
      expect((await other.tmux.refresh()).status).toMatchObject({ reason: 'HELPER_FAILED' });
      seen.add('HELPER_FAILED');
      await rename(helper, moved);
      await using none = actingMember({ directory: at.directory, installed: undefined, helper });
      expect((await none.tmux.refresh()).status).toMatchObject({
        state: 'UNKNOWN',
        reason: 'HELPER_MISSING',
      });
      seen.add('HELPER_MISSING');
      await rename(moved, helper);
      await rm(server.socket);
    });

    it('has no state and no reason that was not seen here', () => {
      const all = [...serverStatuses, ...reasons];
      expect(all.filter((each) => !seen.has(each))).toEqual([]);
    });
  },
);
