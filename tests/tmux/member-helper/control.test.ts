import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askOnce, helperPath, startHelper } from '../../support/helper-client.ts';
import { stopProcess } from '../../support/stop-process.ts';
import { eventually, presentVersions, startTicks } from '../../support/tmux-server.ts';
import { Member } from './member.ts';

describe('control', () => {
  let member: Member;
  beforeAll(async () => {
    member = await Member.any();
  });
  afterAll(() => member[Symbol.asyncDispose]());

  /** Past the `ready` line and the block of the attach. */
  async function open(words: string) {
    const child = startHelper(['control'], member.runner);
    const seen = { text: '' };
    child.stdout.on('data', (chunk: Buffer) => {
      seen.text += chunk.toString('latin1');
    });
    child.stdin.write(`1 control ${words} session=0\n`);
    const [, pid = '', version] = await eventually(
      () => /^ready\t(\d+)\t(\S+)\n%begin \d+ \d+ 0\n[\s\S]*%end/.exec(seen.text) ?? undefined,
      'the client is attached',
    );
    return { child, seen, pid: Number(pid), version, ticks: await startTicks(Number(pid)) };
  }

  async function ended(child: ChildProcessWithoutNullStreams): Promise<void> {
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  }

  it.each(presentVersions)(
    'is the control client of a %s server, which resizes nothing and changes no environment',
    async (version) => {
      await using server = await member.server(version);
      await server.tmux('set-environment', 'SSH_AUTH_SOCK', '/a/b');
      const environment = await server.tmux('show-environment', '-t', 'main');
      expect(environment).toContain('SSH_AUTH_SOCK=/a/b');
      const control = await open(server.words);
      expect(control.version).toBe(version);
      control.child.stdin.write('display-message -p hello\n');
      await eventually(() => /\nhello\n/.test(control.seen.text), 'it answers');
      const client = await server.tmux(
        'list-clients',
        '-F',
        '#{client_pid} #{client_control_mode}',
      );
      expect(client).toBe(`${control.pid} 1`);
      expect(await server.tmux('display-message', '-p', '#{window_width}x#{window_height}')).toBe(
        '80x24',
      );
      expect(await server.tmux('show-environment', '-t', 'main')).toBe(environment);
      await server.tmux('send-keys', '-t', '%0', 'printf "a\\\\\\\\b"', 'Enter');
      await eventually(() => control.seen.text.includes('%output %0 '), 'output comes');

      control.child.stdin.end();
      await ended(control.child);
      expect(control.child.exitCode).toBe(0);
      await eventually(async () => (await server.tmux('list-clients')) === '', 'the client left');
      expect(await startTicks(server.pid)).toBe(server.ticks);
    },
  );

  it.each(presentVersions)(
    'ends with its input also while the %s server is stopped',
    async (version) => {
      await using server = await member.server(version);
      const control = await open(server.words);
      await stopProcess(server.pid);
      control.child.stdin.end();
      await ended(control.child);
      expect(await startTicks(control.pid)).toBeUndefined();
      process.kill(server.pid, 'SIGCONT');
      await eventually(
        async () => (await server.tmux('list-clients')) === '',
        'the client is forgotten',
      );
    },
  );

  it('refuses a session that is not there, another life, a stopped server', async () => {
    await using server = await member.server('3.3a');
    const refused = async (words: string, session: number) =>
      (await askOnce('control', `control ${words} session=${session}`, member.runner)).failure?.[0];
    expect(await refused(server.words, 7)).toBe('ENOENT');
    expect(await refused(server.words.replace(/start=\d+/, 'start=5'), 0)).toBe('ESTALE');
    expect(await refused(server.words.replace(/ticks=\d+/, 'ticks=5'), 0)).toBe('ESTALE');
    await stopProcess(server.pid);
    expect(await refused(server.words, 0)).toBe('STOPPED');
    process.kill(server.pid, 'SIGCONT');
    expect(await server.tmux('list-clients')).toBe('');
  });

  it('leaves no process when the service is killed, also with a stopped server', async () => {
    await using server = await member.server('3.3a');
    for (const stop of [false, true]) {
      const service = spawn(
        process.execPath,
        [
          '-e',
          `const c = require('node:child_process').spawn(process.argv[1], ['control'], { stdio: ['pipe', 'inherit', 'inherit'] });
           c.stdin.write(process.argv[2]); console.log('helper ' + c.pid); setInterval(() => {}, 1000)`,
          helperPath,
          `1 control ${server.words} session=0\n`,
        ],
        { uid: member.runner.uid, gid: member.runner.gid, env: {} },
      );
      let text = '';
      service.stdout.on('data', (chunk) => {
        text += chunk;
      });
      const [helper, client] = await eventually(() => {
        const found = /helper (\d+)[\s\S]*ready\t(\d+)[\s\S]*%end/.exec(text);
        return found ? [Number(found[1]), Number(found[2])] : undefined;
      }, 'the client is attached');
      if (stop) await stopProcess(server.pid);
      service.kill('SIGKILL');
      for (const pid of [helper, client]) {
        await eventually(async () => pid && (await startTicks(pid)) === undefined, 'it is gone');
      }
      if (stop) process.kill(server.pid, 'SIGCONT');
    }
  });
});
