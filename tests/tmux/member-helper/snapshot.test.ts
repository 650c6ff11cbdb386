import { copyFile, readdir, rm, unlink } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hex, unhex } from '../../support/helper-client.ts';
import { lacks } from '../../support/needs.ts';
import { eventually, presentVersions, tmuxBinary } from '../../support/tmux-server.ts';
import { Member } from './member.ts';

const who = [
  ['whoever runs the tests', () => Member.self(), false],
  ['an ordinary Linux user', () => Member.ordinary(), lacks('root')],
] as const;

for (const [name, make, lacking] of who) {
  describe.skipIf(lacking)(`a snapshot of ${name}`, () => {
    let member: Member;
    beforeAll(async () => {
      member = await make();
    });
    afterAll(() => member[Symbol.asyncDispose]());

    it.each(presentVersions)(
      'lists a %s server with its own binary, each field in its column',
      async (version) => {
        await using server = await member.server(version);
        await server.tmux('new-session', '-d', '-s', 'é世🙂 ; | "x\'', 'exec sh');
        await server.tmux('rename-window', '-t', '$1:', '##(touch hit) left|right\\');
        await server.tmux('select-pane', '-t', '%1', '-T', '##(touch hit) é "t\' ; |');
        await server.tmux('split-window', '-t', '%0', 'exec sh');
        // The process that tmux forks for a pane becomes its shell, where it is to be, a moment later.
        const { answer, row } = await eventually(async () => {
          const { servers, answer } = await member.snapshot();
          const row = servers.find(({ path }) => path === server.socket);
          const panes = row?.of('pane') ?? [];
          return panes.every(({ command }) => command === 'sh') ? { answer, row } : undefined;
        }, 'a shell in each pane');

        expect(answer.failure).toBeUndefined();
        expect(row).toMatchObject({ code: 'OK', detail: '', pid: String(server.pid), version });
        expect(row?.ticks).toBe(server.ticks);
        expect(row?.binary).toBe(tmuxBinary(version));
        expect(row?.deleted).toBe('0');
        expect(row?.rows[0]).toEqual(['identity', String(server.pid), String(server.start)]);
        expect(row?.of('session').map(({ id, name, attached }) => [id, name, attached])).toEqual([
          ['0', 'main', '0'],
          ['1', 'é世🙂 ; | "x\'', '0'],
        ]);
        const slash = '\\\\';
        expect(
          row?.of('window').map(({ session, id, index, name }) => [session, id, index, name]),
        ).toEqual([
          ['0', '0', '0', expect.any(String)],
          ['1', '1', '0', `#(touch hit) left|right${slash}`],
        ]);
        const panes = row?.of('pane') ?? [];
        expect(
          panes.map(({ session, window, id, index, columns }) => [
            session,
            window,
            id,
            index,
            columns,
          ]),
        ).toEqual([
          ['0', '0', '0', '0', '80'],
          ['0', '0', '2', '1', '80'],
          ['1', '1', '1', '0', '80'],
        ]);
        expect(panes[2]).toMatchObject({
          title: '#(touch hit) é "t\' ; |',
          command: 'sh',
          dead: '0',
        });
        expect(panes[2]?.tty).toMatch(/^\/dev\//);
        expect(unhex(panes[2]?.path).toString()).toBe('/');
        expect((await readdir(member.directory)).includes('hit')).toBe(false);
      },
    );
  });
}

describe('a snapshot', () => {
  let member: Member;
  beforeAll(async () => {
    member = await Member.any();
  });
  afterAll(() => member[Symbol.asyncDispose]());

  it.each(presentVersions)(
    'gives directories to the byte, and no row of its own for a newline in one (%s)',
    async (version) => {
      await using server = await member.server(version, `odd-${version}`);
      const odd = await member.folder(
        Buffer.from('a\tb\n%exit\npane\t1\t\xff\\?é#(touch hit)', 'latin1'),
      );
      await server.tmux('new-window', '-d', 'exec sh');
      // The program goes there by itself, as a shell does.
      await server.tmux('send-keys', '-t', '%1', 'cd a*', 'Enter');
      await server.tmux('send-keys', '-t', '%0', '-l', `cd ${member.directory}/a*`);
      await server.tmux('send-keys', '-t', '%0', 'Enter');
      const panes = await eventually(async () => {
        const rows = (await member.snapshot()).server(server.socket).of('pane');
        return rows[0]?.path === odd.toString('hex') ? rows : undefined;
      }, 'the pane is in the odd directory');
      expect(panes).toHaveLength(2);
      expect((await readdir(member.directory)).includes('hit')).toBe(false);
    },
  );

  it.each(presentVersions)(
    'says of a %s server without sessions that it has none, not that it is unknown',
    async (version) => {
      await using server = await member.server(version, `empty-${version}`);
      await server.tmux('set-option', '-s', 'exit-empty', 'off');
      await server.tmux('kill-session', '-t', 'main');
      const row = (await member.snapshot()).server(server.socket);
      expect(row).toMatchObject({ code: 'OK', version });
      expect(row.rows.map(([kind]) => kind)).toEqual(['identity']);
      expect(row.rows[0]?.[1]).toBe(String(server.pid));
    },
  );

  it.each(presentVersions)(
    'never takes a broken answer for an empty one, when an alias hides rows (%s)',
    async (version) => {
      await using server = await member.server(version, `alias-${version}`);
      const all = ['list-buffers', 'list-keys', 'no-such-command'];
      for (const command of ['list-panes', 'list-windows', 'list-sessions', 'display-message']) {
        for (const instead of command === 'list-panes' ? all : all.slice(0, 1)) {
          await server.tmux('set-option', '-s', 'command-alias[50]', `${command}=${instead}`);
          const row = (await member.snapshot()).server(server.socket);
          expect([command, instead, row.code]).toEqual([
            command,
            instead,
            expect.stringMatching(/^(EMALFORMED|ECLIENT|ETOOBIG)$/),
          ]);
          expect(row.rows).toEqual([]);
        }
      }
    },
  );

  it('leaves out whom it is told to leave out, but for the census', async () => {
    await using server = await member.server('3.3a', 'skipped');
    const row = (await member.snapshot(` skip=${hex(server.socket)}`)).server(server.socket);
    expect(row).toMatchObject({ code: 'SKIPPED', pid: String(server.pid), version: '3.3a' });
    expect(row.rows).toEqual([]);
  });

  it('runs the binary of the process, also when its file was replaced or removed', async () => {
    const binary = member.path('tmux-copy');
    await copyFile(tmuxBinary('3.1c') ?? '', binary);
    await using server = await member.server('3.1c', 'deleted', binary);
    await rm(binary);
    await copyFile(tmuxBinary('3.8') ?? '', binary);
    const row = (await member.snapshot()).server(server.socket);
    expect(row).toMatchObject({ code: 'OK', version: '3.1c', deleted: '1', binary });
    expect(row.of('pane')).toHaveLength(1);
    await unlink(binary);
  });

  it('says which clients are attached, control clients too', async () => {
    await using server = await member.server('3.5a', 'attached');
    const client = member.run(tmuxBinary('3.5a') ?? '', ['-S', server.socket, '-C', 'attach']);
    client.catch(() => {});
    const found = await eventually(async () => {
      const rows = (await member.snapshot()).server(server.socket).of('client');
      return rows.length > 0 ? rows : undefined;
    }, 'the client is listed');
    expect(found[0]).toEqual({ session: '0', pid: String(client.pid), control: '1' });
    client.kill('SIGTERM');
  });

  it('finds a server whose socket file is gone, and one that lost its path to another', async () => {
    await using lost = await member.server('3.3a', 'lost');
    await unlink(lost.socket);
    expect((await member.snapshot()).server(lost.socket)).toMatchObject({
      code: 'ELOST',
      pid: String(lost.pid),
      ticks: lost.ticks,
      version: '3.3a',
    });
    await using thief = await member.server('3.8', 'lost');
    const two = (await member.snapshot()).servers.filter(({ path }) => path === lost.socket);
    expect(two.map(({ code, pid }) => [code, pid]).sort()).toEqual([
      ['ETAKEN', String(lost.pid)],
      ['OK', String(thief.pid)],
    ]);
  });
});
