import { readdir, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { eventually } from '../support/tmux-server.ts';
import { type Lab, startLab } from './lab.ts';
import { addMembers, lookAtMembers, type MemberSeen, refresh } from './members-page.ts';
import type { Service } from './service.ts';

/** bob puts something else where his socket should be; each attempt is refused, and shown as his alone. */

/** Listens on a socket, takes connections, and tells by a file that it was run with arguments. */
const listener = `use Socket; my ($path, $marks) = (shift, $ENV{HOME});
if ($path =~ /^-/) { open my $mark, '>', "$marks/executed-by-$<"; exit 0 }
socket my $s, AF_UNIX, SOCK_STREAM, 0; bind $s, pack_sockaddr_un($path) or die; listen $s, 9;
$| = 1; print "ready\\n"; while (accept my $c, $s) { close $c }`;

describe.skipIf(lacks('root', 'sudo', 'visudo', 'tmux', 'perl'))('in place of his socket', () => {
  let lab: Lab;
  let service: Service;
  let bobId: string;
  let socket: string;
  let alicesSocket: string;

  beforeAll(async () => {
    lab = await startLab();
    const { alice, bob } = lab.users;
    alicesSocket = (await lab.startTmuxAs(alice)).socket;
    await execa('install', ['-d', '-m', '0700', '-o', bob.name, '-g', bob.name, tmuxFolder()]);
    socket = join(tmuxFolder(), 'default');
    service = await lab.startService();
    await addMembers(lab, service, ['alice', 'bob']);
    const { members } = await lookAtMembers(service);
    bobId = members.get('bob')?.id ?? '';
  }, 120_000);
  afterAll(async () => {
    await lab?.[Symbol.asyncDispose]();
  });
  beforeEach(() => rm(socket, { force: true }));

  const tmuxFolder = () => `/tmp/tmux-${lab.users.bob.uid}`;

  /** A program of bob's that listens on his socket, started by this file of his. */
  async function listening(program: readonly string[]): Promise<AsyncDisposable> {
    const { bob } = lab.users;
    const [file = '', ...args] = program;
    const child = execa(file, [...args, socket], {
      uid: bob.uid,
      gid: bob.gid,
      cwd: '/',
      env: { HOME: bob.home },
      stdin: 'ignore',
      reject: false,
    });
    await eventually(
      () => new Promise((resolve) => child.stdout.once('data', resolve)),
      'it listens',
    );
    return {
      async [Symbol.asyncDispose]() {
        child.kill('SIGKILL');
        await child;
      },
    };
  }

  /** What of bob's shows why, after a look that was just made. */
  async function reasonsNow(): Promise<readonly string[]> {
    const bob: MemberSeen = await refresh(service, bobId);
    const shown = [bob.listing, ...(bob.tmuxServers ?? []).flatMap((each) => [each, each.listing])];
    for (const server of bob.tmuxServers ?? []) expect(server.sessions ?? []).toEqual([]);
    return shown.map(({ reason }) => reason).filter((reason) => reason !== null);
  }

  async function othersAreFine(): Promise<void> {
    const { members } = await lookAtMembers(service);
    const alice = members.get('alice');
    expect(alice?.listing).toMatchObject({ state: 'FRESH', reason: null });
    expect(alice?.tmuxServers).toMatchObject([
      { socketPath: alicesSocket, status: 'RUNNING', reason: null, sessions: [{ name: 'main' }] },
    ]);
  }

  async function marks(): Promise<readonly string[]> {
    const found: string[] = [];
    for (const user of Object.values(lab.users)) {
      const names = await readdir(user.home);
      found.push(...names.filter((name) => name.startsWith('executed-by-')));
    }
    return found;
  }

  it("a link to another member's socket", async () => {
    await symlink(alicesSocket, socket);
    await execa('chown', ['-h', `${lab.users.bob.uid}:${lab.users.bob.gid}`, socket]);
    const reasons = await reasonsNow();
    expect(reasons.length).toBeGreaterThan(0);
    for (const reason of reasons) expect(['NOT_TMUX', 'FOREIGN_OWNER', 'EACCES']).toContain(reason);
    await othersAreFine();
  });

  it('a program that is not tmux', async () => {
    await using _ = await listening(['/usr/bin/perl', '-e', listener]);
    expect(await reasonsNow()).toContain('NOT_TMUX');
    await othersAreFine();
    expect(await marks()).toEqual([]);
  });

  it('a script that is named tmux', async () => {
    const { bob } = lab.users;
    const script = join(bob.home, 'tmux');
    const text = `#!/usr/bin/perl\n${listener}\n`;
    await lab.runAs(bob, ['sh', '-c', 'cat > "$0" && chmod 755 "$0"', script], { input: text });
    await using _ = await listening([script]);
    expect((await reasonsNow()).length).toBeGreaterThan(0);
    await othersAreFine();
    const made = await marks();
    expect(made.filter((name) => name !== `executed-by-${bob.uid}`)).toEqual([]);
  });

  it('a program of his own that is named tmux', async () => {
    const { bob } = lab.users;
    const program = join(bob.home, 'bin');
    await lab.runAs(bob, ['sh', '-c', 'mkdir "$0" && cp /usr/bin/perl "$0/tmux"', program]);
    await using _ = await listening([join(program, 'tmux'), '-e', listener]);
    expect((await reasonsNow()).length).toBeGreaterThan(0);
    await othersAreFine();
    // Were it run, then as bob, whose program it is.
    const made = await marks();
    expect(made.filter((name) => name !== `executed-by-${bob.uid}`)).toEqual([]);
  });
});
