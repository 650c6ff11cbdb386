import { writeFile } from 'node:fs/promises';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { leaveNoDescriptor } from '../../support/descriptors.ts';
import { askOnce, hex, rowsOf, ServingHelper } from '../../support/helper-client.ts';
import { stopProcess } from '../../support/stop-process.ts';
import { eventually } from '../../support/tmux-server.ts';
import { Member, processesWith, readSnapshot } from './member.ts';

const seconds = async <T>(work: () => Promise<T>): Promise<readonly [T, number]> => {
  const start = performance.now();
  const result = await work();
  return [result, (performance.now() - start) / 1000];
};

/** Makes sockets and leaves them, or keeps connecting to one until told not to wait. */
const deadSockets = `use Socket; for my $n (1 .. $ARGV[1]) {
  socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un("$ARGV[0]/dead-$n")) or die "$!" }`;
const fillQueue = `use Socket qw(:DEFAULT SOCK_NONBLOCK); my @held; while (1) { socket(my $s, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  connect($s, pack_sockaddr_un($ARGV[0])) or last; push @held, $s } print scalar(@held), "\\n"`;

describe('the helper stays within its bounds', () => {
  let member: Member;
  beforeAll(async () => {
    member = await Member.any();
  });
  afterAll(() => member[Symbol.asyncDispose]());

  const request = () => `snapshot dirs=${hex(member.directory)}`;
  const clientsLeft = (socket: string) =>
    processesWith(`/${socket.split('/').at(-1)}\0`).then((pids) => pids.length);

  it('with a stopped server, to which it connects once and then not again', async () => {
    await using server = await member.server('3.3a', 'stopped-one');
    await using beside = await member.server('3.8', 'beside-it');
    await stopProcess(server.pid);
    await using helper = new ServingHelper(member.runner);
    for (let round = 0; round < 5; round++) {
      const snapshot = readSnapshot(await helper.ask(request()));
      expect(snapshot.server(server.socket)).toMatchObject({
        code: 'STOPPED',
        state: 'T',
        pid: String(server.pid),
        ticks: server.ticks,
        version: '3.3a',
        rows: [],
      });
      expect(snapshot.server(beside.socket).code).toMatch(/^(OK|TIMEOUT)$/);
    }
    // Rows of /proc/net/unix for the path: the listener, and each connection that waits in its queue.
    const waiting = await execa('grep', ['-c', server.socket, '/proc/net/unix']);
    expect(Number(waiting.stdout)).toBeLessThanOrEqual(2);
    for (const ask of [
      `capture ${server.words} pane=0 lines=0`,
      `display ${server.words} session=0`,
    ]) {
      expect((await helper.ask(ask)).failure?.[0]).toBe('STOPPED');
    }
    expect((await askOnce('act', `kill-server ${server.words}`, member.runner)).failure?.[0]).toBe(
      'STOPPED',
    );
    process.kill(server.pid, 'SIGCONT');
    const snapshot = await eventually(async () => {
      const now = readSnapshot(await helper.ask(request()));
      return now.server(server.socket).code === 'OK' ? now : undefined;
    }, 'it is listed again');
    expect(snapshot.server(server.socket)).toMatchObject({ pid: String(server.pid) });
  });

  it('with a server whose queue of connections is full', async () => {
    await using server = await member.server('3.5a', 'full');
    await stopProcess(server.pid);
    const filled = await member.run('/usr/bin/perl', ['-e', fillQueue, server.socket]);
    expect(Number(filled.stdout)).toBeGreaterThan(100);
    const [snapshot, took] = await seconds(() => member.snapshot('', 1));
    // By the sockets that it holds it is still told which process that is.
    expect(snapshot.server(server.socket)).toMatchObject({
      code: 'STOPPED',
      pid: String(server.pid),
    });
    expect(took).toBeLessThan(3);
    process.kill(server.pid, 'SIGCONT');
  });

  it('with a server that runs and never answers', async () => {
    await using server = await member.server('3.3a', 'mute');
    await using beside = await member.server('3.8', 'beside-mute');
    await leaveNoDescriptor(server.pid, {
      run: (file, parameters) => member.run(file, parameters),
    });
    const [snapshot, took] = await seconds(() => member.snapshot('', 1));
    expect(snapshot.server(server.socket)).toMatchObject({
      code: 'TIMEOUT',
      pid: String(server.pid),
      rows: [],
    });
    expect(snapshot.servers.map(({ path }) => path)).toContain(beside.socket);
    expect(took).toBeLessThan(6);
    expect(await clientsLeft(server.socket)).toBeLessThanOrEqual(1);
    const rescued = await askOnce(
      'act',
      `rescue pid=${server.pid} ticks=${server.ticks} limit=1024`,
      member.runner,
    );
    expect(rowsOf(rescued, 'limit')[0]?.[0]).toBe('1024');
    expect((await member.snapshot()).server(server.socket).code).toBe('OK');
  });

  it('with an answer without end, from an alias of the member', async () => {
    await using server = await member.server('3.7c', 'flood');
    await using beside = await member.server('3.3a', 'beside-flood');
    await writeFile(member.path('big'), 'x'.repeat(3 << 20));
    await server.tmux('load-buffer', '-b', 'big', member.path('big'));
    await server.tmux(
      'set-option',
      '-s',
      'command-alias[90]',
      'list-sessions=show-buffer -b big ; display-message -p',
    );
    const snapshot = await member.snapshot();
    expect(snapshot.server(server.socket)).toMatchObject({ code: 'ETOOBIG', rows: [] });
    expect(snapshot.server(beside.socket).code).toBe('OK');
    expect(snapshot.answer.bytes).toBeLessThan(1 << 20);
    await eventually(async () => (await clientsLeft(server.socket)) <= 1, 'no client is left');
  });

  it('with more panes than it gives, whatever else there is', async () => {
    await using server = await member.server('3.3a', 'many');
    await using beside = await member.server('3.3a', 'beside-many');
    await writeFile(member.path('conf'), 'new-window -d "exec sleep 1000"\n'.repeat(100));
    // A window linked 30 times over counts for each place.
    await server.tmux('source-file', member.path('conf'));
    for (let group = 0; group < 21; group++) await server.tmux('new-session', '-d', '-t', 'main');
    const snapshot = await member.snapshot();
    expect(snapshot.server(server.socket)).toMatchObject({
      code: 'ETOOBIG',
      detail: 'over 2000 panes',
    });
    expect(snapshot.server(beside.socket).code).toBe('OK');
  }, 120_000);

  it('with 2,000 sockets on which nobody listens', async () => {
    await member.folder('dead');
    await member.run('/usr/bin/perl', ['-e', deadSockets, member.path('dead'), '2000']);
    const known = member.path('dead/dead-7');
    const ask = `snapshot dirs=${hex(member.path('dead'))} extra=${hex(known)}`;
    await using helper = new ServingHelper(member.runner);
    await helper.ask(`snapshot dirs=${hex('/nowhere')}`);
    const [answer, took] = await seconds(() => helper.ask(ask));
    expect(rowsOf(answer, 'dead')).toEqual([[hex(member.path('dead')), '1999']]);
    expect(rowsOf(answer, 'server').map(([path, code]) => [path, code])).toEqual([
      [hex(known), 'EDEAD'],
    ]);
    expect(took).toBeLessThan(3);
  });
});
