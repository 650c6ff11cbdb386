import { readdir, readlink, stat, unlink } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askOnce, hex, rowsOf, unhex } from '../../support/helper-client.ts';
import { eventually, presentVersions, startTicks } from '../../support/tmux-server.ts';
import { Member, type StartedServer } from './member.ts';

describe('the helper', () => {
  let member: Member;
  beforeAll(async () => {
    member = await Member.any();
  });
  afterAll(() => member[Symbol.asyncDispose]());

  const act = (request: string) => askOnce('act', request, member.runner);
  const ask = (request: string) => askOnce('serve', request, member.runner);
  const panePid = (server: StartedServer) =>
    server.tmux('display-message', '-p', '-t', '%0', '#{pane_pid}');
  const identity = ({ pid, ticks }: StartedServer) => `pid=${pid} ticks=${ticks}`;

  it.each(presentVersions)(
    'touches nothing of a %s server for an id of another life, pane or process',
    async (version) => {
      await using server = await member.server(version);
      const { socket, pid, ticks, start } = server;
      const life = (more: { pid?: number; ticks?: string; start?: number }) => {
        const is = { pid, ticks, start, ...more };
        return `socket=${hex(socket)} pid=${is.pid} ticks=${is.ticks} start=${is.start}`;
      };
      const before = await panePid(server);
      const directory = `dir=${hex('/')}`;
      const cases: [verb: typeof act, request: string, code: string][] = [];
      for (const stale of [life({ pid: 1 }), life({ ticks: '1' }), life({ start: start - 1 })]) {
        cases.push(
          [act, `kill-server ${stale}`, 'ESTALE'],
          [act, `respawn-pane ${stale} pane=0 panepid=${before} ${directory}`, 'ESTALE'],
          [ask, `capture ${stale} pane=0 lines=0`, 'ESTALE'],
        );
      }
      cases.push(
        [ask, `display ${life({ start: start + 1 })} session=0`, 'ESTALE'],
        [
          act,
          `respawn-pane ${life({})} pane=0 panepid=${Number(before) + 1} ${directory}`,
          'ENOENT',
        ],
        [act, `respawn-pane ${life({})} pane=9 panepid=${before} ${directory}`, 'ENOENT'],
        [act, `respawn-pane ${life({})} pane=0 panepid=${before} dir=${hex('/no such')}`, 'ENOCWD'],
        [act, `respawn-pane ${life({})} pane=0 panepid=${before} dir=${hex('tmp')}`, 'ENOCWD'],
        [ask, `capture ${life({})} pane=9 lines=0`, 'ENOENT'],
        [ask, `display ${life({})} session=9`, 'ENOENT'],
      );
      for (const [verb, request, code] of cases) {
        const answer = await verb(request);
        expect([request, answer.failure?.[0]]).toEqual([request, code]);
        expect(answer.rows).toEqual([]);
      }
      expect(await panePid(server)).toBe(before);
      expect(await startTicks(pid)).toBe(ticks);
    },
  );

  it.each(presentVersions)(
    'restarts the program of a %s pane in a directory of any name',
    async (version) => {
      await using server = await member.server(version);
      for (const name of ['plain', `a #(touch hit)#[b]##{pid} '"$HOME~é;`, 'x\n  y\\z%H;', '#']) {
        const directory = await member.folder(name);
        const before = await panePid(server);
        const answer = await act(
          `respawn-pane ${server.words} pane=0 panepid=${before} dir=${directory.toString('hex')}`,
        );
        expect(answer.failure).toBeUndefined();
        const [[pid = '', path = ''] = []] = rowsOf(answer, 'respawned');
        expect(unhex(path).toString()).toBe(directory.toString());
        expect(await panePid(server)).toBe(pid);
        expect(pid).not.toBe(before);
        expect(await readlink(`/proc/${pid}/cwd`)).toBe(directory.toString());
      }
      expect((await readdir(member.directory)).includes('hit')).toBe(false);
    },
  );

  it.each(presentVersions)('captures the screen of a %s pane to the byte', async (version) => {
    await using server = await member.server(version);
    await server.tmux(
      'respawn-pane',
      '-k',
      '-t',
      '%0',
      "printf '\\033[31mred\\033[0m \\303\\251\\344\\270\\226 #(x)\\nend 1/1\\n%%end 1 1 1\\n'; exec sleep 1000",
    );
    const text = await eventually(async () => {
      const answer = await ask(`capture ${server.words} pane=0 lines=0`);
      expect(answer.failure).toBeUndefined();
      expect(rowsOf(answer, 'screen')[0]?.slice(0, 2)).toEqual(['80', '24']);
      const all = Buffer.concat(rowsOf(answer, 'data').map(([data]) => unhex(data))).toString();
      return all.includes('%end') ? { all, screen: rowsOf(answer, 'screen')[0] } : undefined;
    }, 'the text is on the screen');
    expect(text.all.split('\n').slice(0, 3)).toEqual([
      '\u001b[31mred\u001b[39m é世 #(x)',
      'end 1/1',
      '%end 1 1 1',
    ]);
    expect(text.all.split('\n')).toHaveLength(25);
    expect(text.screen).toEqual(['80', '24', '0', '3', '0', '0']);
    expect(rowsOf(await ask(`display ${server.words} session=0`), 'watch')).toEqual([
      ['off', 'off', '80', '24'],
    ]);
  });

  it.each(presentVersions)(
    'ends a %s server, sees it gone, and removes what it leaves',
    async (version) => {
      await using server = await member.server(version);
      const gone = (ms: number) =>
        act(`await ${identity(server)} socket=${hex(server.socket)} ms=${ms}`);
      expect(rowsOf(await act(`sweep socket=${hex(server.socket)}`), 'swept')).toEqual([['0']]);
      expect(rowsOf(await gone(50), 'gone')[0]).toEqual([
        '0',
        expect.stringMatching(/^[RS]$/),
        '1',
      ]);
      const pid = await panePid(server);
      const shell = await startTicks(Number(pid));
      // The process that tmux forks for a pane becomes its shell a moment later.
      const survivors = await eventually(async () => {
        const rows = rowsOf(
          await act(`survivors pids=${pid}-${shell},${pid}-1,999999-5`),
          'survivor',
        );
        return rows.some(([, command]) => command === hex('sh')) ? rows : undefined;
      }, 'the shell lives');
      expect(survivors).toEqual([[pid, hex('sh')]]);

      expect((await act(`kill-server ${server.words}`)).rows).toEqual([['sent']]);
      expect(rowsOf(await gone(10_000), 'gone')[0]).toEqual([
        '1',
        expect.stringMatching(/^[ZX]?$/),
        '0',
      ]);
      expect(rowsOf(await act(`sweep socket=${hex(server.socket)}`), 'swept')).toEqual([['1']]);
      await expect(stat(server.socket)).rejects.toThrow('ENOENT');
      expect(rowsOf(await act(`sweep socket=${hex(server.socket)}`), 'swept')).toEqual([['0']]);
      expect((await act(`signal ${identity(server)} signal=kill`)).failure?.[0]).toBe('EGONE');
      expect((await act(`rescue ${identity(server)} limit=64`)).failure?.[0]).toBe('EGONE');
      expect((await act(`kill-server ${server.words}`)).failure?.[0]).toBe('EDEAD');
    },
  );

  it.each(presentVersions)(
    'brings back the socket of a %s server, raises its limit, signals only the very process',
    async (version) => {
      await using server = await member.server(version);
      await unlink(server.socket);
      expect((await act(`signal pid=${server.pid} ticks=1 signal=kill`)).failure?.[0]).toBe(
        'EGONE',
      );
      const recreate = `recreate-socket socket=${hex(server.socket)} ${identity(server)}`;
      expect((await act(recreate)).rows).toEqual([['recreated', '1']]);
      expect((await act(recreate)).failure?.[0]).toBe('EBUSY');
      const limits = async () =>
        rowsOf(await ask(`limits ${identity(server)}`), 'limit').map((row) => row.map(Number))[0];
      const raise = (to: number) => act(`rescue ${identity(server)} limit=${to}`);
      await member.run('prlimit', ['--pid', String(server.pid), '--nofile=100:300']);
      expect(await limits()).toEqual([100, 300]);
      expect((await raise(200)).rows).toEqual([['limit', '200', '300']]);
      // Not beyond the hard limit, and never down: somebody may have raised it meanwhile.
      expect((await raise(400)).rows).toEqual([['limit', '300', '300']]);
      await raise(200);
      expect(await limits()).toEqual([300, 300]);
      expect((await member.snapshot()).server(server.socket)).toMatchObject({
        code: 'OK',
        pid: String(server.pid),
      });
      await act(`signal ${identity(server)} signal=term`);
      await eventually(async () => (await startTicks(server.pid)) === undefined, 'it ended');
    },
  );

  it('says what a directory is to the member', async () => {
    const closed = await member.folder('shut', 0o000);
    const probe = async (path: string) =>
      rowsOf(await act(`probe-directory dir=${hex(path)}`), 'directory')[0]?.[0];
    expect(await probe('/')).toBe('OK');
    expect(await probe('/nowhere')).toBe('ENOENT');
    expect(await probe('/etc/passwd')).toBe('ENOTDIR');
    expect(await probe('etc')).toBe('EDIR');
    expect(await probe(closed.toString())).toBe(member.runner.uid === 0 ? 'OK' : 'EACCES');
  });
});
