import { chmod, chown, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askOnce, hex, rowsOf, unhex } from '../../support/helper-client.ts';
import { lacks } from '../../support/needs.ts';
import { eventually } from '../../support/tmux-server.ts';
import { Member } from './member.ts';

/**
 * Listens on the path of its first argument. When it is run with anything else (as a tmux client
 * would be), it leaves a file. Its process calls itself what tmux calls its server.
 */
const listener = `#!/usr/bin/perl
use Socket;
my ($path, $marker) = @ARGV;
if (@ARGV != 2) { open my $mark, '>', "$ENV{HOME}/executed"; print $mark "@ARGV"; exit }
socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($path)) or die; listen($s, 8) or die;
$0 = 'tmux: server';
$SIG{PIPE} = 'IGNORE';
while (1) { accept(my $c, $s); sysread $c, my $x, 100; print $c "x" x 100000 }
`;

describe.skipIf(lacks('root'))('the helper refuses', () => {
  let member: Member;
  let other: Member;
  beforeAll(async () => {
    member = await Member.ordinary();
    other = await Member.ordinary();
  });
  afterAll(async () => {
    await member[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
  });

  it('a process on its way out as one that has ended: it still listens, and has no binary any more', async () => {
    const path = member.path('ending');
    // Its first thread ends, so the kernel shows it as it shows a process that has let go of its memory.
    const listens =
      'socket($s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($ARGV[0])) or die; listen($s, 8) or die;';
    const child = member.run('/usr/bin/perl', [
      ...['-MSocket', '-Mthreads', '-e'],
      `${listens} threads->create(sub { sleep 1000 }); syscall ${process.arch === 'arm64' ? 93 : 60}, 0`,
      path,
    ]);
    child.catch(() => {});
    const row = await eventually(async () => {
      const found = (await member.snapshot()).servers.find(({ path: at }) => at === path);
      return found?.code === 'ENOTMUX' || found === undefined ? undefined : found;
    }, 'it has no binary');
    child.kill('SIGKILL');
    expect(row).toMatchObject({ code: 'EGONE', detail: 'the server ended meanwhile' });
  });

  it('a listener that is not tmux, also a script named tmux, and executes nothing of it', async () => {
    const script = member.path('tmux');
    await writeFile(script, listener, { mode: 0o755 });
    const path = member.path('script');
    const started = [
      member.run(script, [path, 'x']),
      member.run('/usr/bin/perl', [script, member.path('perl'), 'x']),
    ];
    for (const child of started) child.catch(() => {});
    const snapshot = await eventually(async () => {
      const now = await member.snapshot();
      const codes = ['script', 'perl'].map(
        (name) => now.servers.find(({ path: at }) => at === member.path(name))?.code,
      );
      return codes.every((code) => code !== undefined) ? now : undefined;
    }, 'both listen');
    for (const name of ['script', 'perl']) {
      expect(snapshot.server(member.path(name))).toMatchObject({ code: 'ENOTMUX', rows: [] });
      const pid = snapshot.server(member.path(name)).pid;
      const ticks = snapshot.server(member.path(name)).ticks;
      const words = `socket=${hex(member.path(name))} pid=${pid} ticks=${ticks} start=1`;
      const answer = await askOnce('act', `kill-server ${words}`, member.runner);
      expect(answer.failure?.[0]).toBe('ENOTMUX');
    }
    for (const child of started) child.kill('SIGKILL');
    expect((await readdir(member.directory)).includes('executed')).toBe(false);
  });

  it('whatever stands where a socket should be, each thing with its own code', async () => {
    await using theirs = await other.server('3.3a', 'theirs');
    const here = (name: string) => member.path(`odd/${name}`);
    await member.folder('odd');
    await chmod(other.directory, 0o755);
    await symlink(theirs.socket, here('link'));
    await member.run('mkfifo', [here('fifo')]);
    await writeFile(here('file'), '');
    const foreign = await other.run('/usr/bin/perl', [
      '-MSocket',
      '-e',
      'socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un($ARGV[0])) or die $!',
      `${other.directory}/foreign`,
    ]);
    expect(foreign.exitCode).toBe(0);
    const extra = [here('none'), `${member.directory}/gone/none`, `${other.directory}/foreign`];
    const answer = await askOnce(
      'serve',
      `snapshot dirs=${hex(member.path('odd'))} extra=${extra.map(hex).join(',')}`,
      member.runner,
    );
    const codes = Object.fromEntries(
      rowsOf(answer, 'server').map(([path, code]) => [
        unhex(path).toString().split('/').slice(-2).join('/'),
        code,
      ]),
    );
    expect(codes).toEqual({
      'odd/link': 'ESOCKTYPE',
      'odd/fifo': 'ESOCKTYPE',
      'odd/file': 'ESOCKTYPE',
      'odd/none': 'EDEAD',
      'gone/none': 'EDEAD',
      [`${other.directory.split('/').at(-1)}/foreign`]: 'EDIR',
    });
    const again = await other.snapshot();
    expect(again.server(theirs.socket)).toMatchObject({ code: 'OK', pid: String(theirs.pid) });
    expect(again.server(theirs.socket).of('client')).toEqual([]);
    await chmod(other.directory, 0o700);
  });

  it('a socket of another user in a directory of the member', async () => {
    await using theirs = await other.server('3.3a', 'given');
    const path = member.path('given');
    await rm(path, { force: true });
    // Only root can bring this about.
    await execa('mv', [theirs.socket, path]);
    expect((await member.snapshot()).server(path)).toMatchObject({ code: 'EOWNER', rows: [] });
    await chown(path, member.runner.uid, member.runner.gid);
    expect((await member.snapshot()).server(path)).toMatchObject({ code: 'EPEERUID', rows: [] });
    await rm(path);
  });

  it('directories that are closed, open to others, links, or below such', async () => {
    const closed = await member.folder('closed', 0o000);
    const open = await member.folder('open', 0o777);
    await member.folder('open/below');
    await symlink(member.path('odd'), member.path('alias'));
    await mkdir(member.path('roots'), { mode: 0o755 });
    const dirs = [
      closed,
      open,
      ...['open/below', 'alias', 'roots', 'absent'].map((d) => member.path(d)),
    ];
    const answer = await askOnce(
      'serve',
      `snapshot dirs=${dirs.map((dir) => hex(dir)).join(',')} extra=${hex(`${member.path('closed')}/known`)}`,
      member.runner,
    );
    const seen = rowsOf(answer, 'directory').map(([path, code, detail]) => [
      unhex(path)
        .toString()
        .slice(member.directory.length + 1),
      code,
      detail,
    ]);
    expect(seen).toEqual([
      ['closed', 'EACCES', expect.stringContaining('Permission denied')],
      ['open', 'EDIR', expect.stringContaining(`user ${member.runner.uid}, mode 0777`)],
      ['open/below', 'EDIR', expect.stringContaining('mode 0777')],
      ['alias', 'EDIR', expect.stringContaining('symbolic link')],
      ['roots', 'EDIR', expect.stringContaining('user 0, mode 0755')],
      ['absent', 'ABSENT', expect.stringContaining('does not exist')],
    ]);
    expect(rowsOf(answer, 'server').map((row) => row[1])).toEqual(['EACCES']);
  });

  it('a path that is too long, and says by how many bytes', async () => {
    const path = `${member.directory}/${'x'.repeat(108 - member.directory.length - 1)}`;
    const snapshot = await member.snapshot(` extra=${hex(path)}`);
    expect(snapshot.server(path)).toMatchObject({
      code: 'EPATHLONG',
      detail: 'the socket path is 1 bytes over the limit of 107',
    });
  });

  it('nothing at the limit of 107 bytes: that one is listed', async () => {
    const name = 'y'.repeat(107 - member.directory.length - 1);
    await using server = await member.server('3.3a', name);
    expect((await member.snapshot()).server(server.socket)).toMatchObject({ code: 'OK' });
  });

  it('the names of $UID, $USER and $HOME are the member’s', async () => {
    const dirs = ['$HOME/named-$UID-$USER'].map((dir) => hex(dir)).join(',');
    const answer = await askOnce('serve', `snapshot dirs=${dirs}`, member.runner);
    const [[path = ''] = []] = rowsOf(answer, 'directory');
    expect(unhex(path).toString()).toMatch(
      new RegExp(`^${member.directory}/named-${member.runner.uid}-mwt-[0-9a-f]{6}$`),
    );
  });
});
