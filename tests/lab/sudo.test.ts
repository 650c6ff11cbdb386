import { access, readFile } from 'node:fs/promises';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { eventually } from '../support/tmux-server.ts';
import { rootOf, sudoersOf } from './accounts.ts';
import { type Lab, runAs, startLab } from './lab.ts';
import { processesWhere } from './processes.ts';

const unable = lacks('root', 'sudo', 'visudo');

describe.skipIf(unable)('the rule for sudo', () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await startLab();
  });
  afterAll(async () => {
    await lab?.[Symbol.asyncDispose]();
  });

  const sudo = (...argv: string[]) => runAs(lab.users.service, ['sudo', '-n', ...argv]);

  it('lets the service start the four verbs of the helper, and they answer as the member', async () => {
    const { alice } = lab.users;
    const { helper, helperAct } = lab.installation;
    const dirs = Buffer.from('/tmp/tmux-$UID').toString('hex');
    const served = await runAs(
      lab.users.service,
      ['sudo', '-n', '-u', alice.name, helper, 'serve'],
      {
        input: `7 snapshot dirs=${dirs}\n`,
      },
    );
    expect([served.exitCode, served.stderr]).toEqual([0, '']);
    expect(served.stdout).toMatch(new RegExp(`^begin\t7\tsnapshot\nmember\t${alice.uid}\t`));
    expect(served.stdout).toMatch(/\nend\t7\t\d+\t\d+$/);
    for (const [file, verb] of [
      [helperAct, 'act'],
      [helperAct, 'start'],
      [helper, 'control'],
    ] as const) {
      const refused = await runAs(lab.users.service, ['sudo', '-n', '-u', alice.name, file, verb], {
        input: 'nonsense\n',
      });
      // Past sudo: it is the helper that does not take this.
      expect(`${refused.stdout}${refused.stderr}`).toMatch(/misuse/);
    }
  });

  it('is all that sudo allows the service', async () => {
    const { stdout } = await sudo('-l');
    const { helper, helperAct } = lab.installation;
    const rules = stdout.slice(stdout.indexOf('may run the following'));
    expect(rules.replace(/^.*\n/, '').replaceAll(/\s+/g, ' ').trim()).toBe(
      [
        `(%mwl${lab.id}-members) TIMEOUT=20 NOSETENV: NOPASSWD: ${helperAct} act, ${helperAct} start`,
        `(%mwl${lab.id}-members) NOSETENV: NOPASSWD: ${helper} serve, ${helper} control`,
      ]
        .join(' ')
        .replaceAll(' NOPASSWD:', ''),
    );
  });

  it('refuses everything else, and sudo records it', async () => {
    const { alice, service } = lab.users;
    const { helper, helperAct } = lab.installation;
    const member = ['-u', alice.name];
    const ownCopy = `${service.home}/muxwarden-member`;
    expect((await runAs(service, ['cp', helper, ownCopy])).exitCode).toBe(0);
    const abuses: readonly (readonly string[])[] = [
      [...member, helper],
      [...member, helper, 'serve', 'extra'],
      [...member, helper, 'serve', ''],
      [...member, helper, 'act'],
      [...member, helper, 'start'],
      [...member, helper, '*'],
      [...member, helperAct, 'serve'],
      [...member, helperAct, 'control'],
      [...member, helperAct, 'act', 'act'],
      [...member, `${helper}/../muxwarden-member`, 'serve'],
      [...member, ownCopy, 'serve'],
      [...member, '/usr/bin/perl', helper, 'serve'],
      [...member, '/bin/sh', '-c', 'id'],
      [...member, '/usr/bin/tmux', 'kill-server'],
      [...member, '-g', 'root', helper, 'serve'],
      [...member, '-E', helper, 'serve'],
      [...member, 'PERL5OPT=-MEvil', helper, 'serve'],
      [...member, '-D', '/root', helper, 'serve'],
      [...member, '-R', '/', helper, 'serve'],
      [...member, '-C', '5', helper, 'serve'],
      [...member, '-T', '3600', helperAct, 'act'],
      [...member, '-s', helper, 'serve'],
      [...member, '-i', helper, 'serve'],
      [...member, '-e', '/etc/hosts'],
      ['-u', 'root', helper, 'serve'],
      ['-u', '#0', helper, 'serve'],
      ['-u', service.name, helper, 'serve'],
      ['-u', 'daemon', helper, 'serve'],
      [helper, 'serve'],
      ['-g', `mwl${lab.id}-members`, helper, 'serve'],
    ];
    console.info(`${abuses.length} calls that sudo must refuse`);
    for (const abuse of abuses) {
      const before = (await lab.sudoLog()).length;
      const result = await sudo(...abuse);
      const logged = (await lab.sudoLog()).slice(before).join('\n');
      expect({ abuse, exit: result.exitCode, stdout: result.stdout, logged }).toEqual({
        abuse,
        exit: 1,
        stdout: '',
        logged: expect.stringMatching(/not allowed|not permitted|command not allowed/),
      });
    }
  });

  it('is for the service alone: members may not use it on each other', async () => {
    const { alice, bob } = lab.users;
    for (const target of [alice.name, 'root']) {
      const result = await runAs(
        bob,
        ['sudo', '-n', '-u', target, lab.installation.helper, 'serve'],
        {
          input: '',
        },
      );
      expect([result.exitCode, result.stdout]).toEqual([1, '']);
    }
  });

  it('records an act and a start, and no read', async () => {
    const { alice } = lab.users;
    const { helper, helperAct } = lab.installation;
    const lines = async (...argv: string[]) => {
      const before = (await lab.sudoLog()).length;
      await runAs(lab.users.service, ['sudo', '-n', '-u', alice.name, ...argv], { input: '\n' });
      return (await lab.sudoLog()).slice(before);
    };
    expect(await lines(helper, 'serve')).toEqual([]);
    expect(await lines(helper, 'control')).toEqual([]);
    for (const verb of ['act', 'start']) {
      expect(await lines(helperAct, verb)).toEqual([
        expect.stringContaining(`USER=${alice.name} ; COMMAND=${helperAct} ${verb}`),
      ]);
    }
  });

  it('gives the helper nothing of the caller: no environment, no directory, no descriptor', async () => {
    const { alice, service } = lab.users;
    const { helper } = lab.installation;
    const script = 'exec 9</etc/hostname; exec sudo -n -u "$1" "$2" serve';
    const running = execa('bash', ['-c', script, 'sh', alice.name, helper], {
      uid: service.uid,
      gid: service.gid,
      cwd: service.home,
      extendEnv: false,
      env: { PATH: process.env.PATH ?? '', SECRET: 'x', PERL5LIB: '/tmp', TMUX: '/tmp/x,1,0' },
      reject: false,
    });
    const [started] = await eventually(async () => {
      const found = await processesWhere(
        ({ uid, command }) => uid === alice.uid && command.includes(`${helper} serve`),
      );
      const cwd = found[0] && (await execa('readlink', [`/proc/${found[0].pid}/cwd`]));
      return cwd?.stdout === '/' ? found : undefined;
    }, 'the helper runs');
    const proc = `/proc/${started?.pid}`;
    expect(await readFile(`${proc}/environ`, 'utf8')).not.toMatch(/SECRET|PERL5|TMUX/);
    expect((await execa('ls', [`${proc}/fd`])).stdout.split('\n')).toEqual(['0', '1', '2']);
    running.stdin.end();
    expect((await running).exitCode).toBe(0);
    expect(await lab.processesOf(alice)).toEqual([]);
  });

  it('ends for a member who leaves the group, at the next call', async () => {
    const { carol } = lab.users;
    const call = () =>
      runAs(lab.users.service, ['sudo', '-n', '-u', carol.name, lab.installation.helper, 'serve'], {
        input: '',
      });
    expect((await call()).exitCode).toBe(0);
    await execa('gpasswd', ['-d', carol.name, `mwl${lab.id}-members`]);
    const refused = await call();
    expect([refused.exitCode, refused.stdout]).toEqual([1, '']);
    expect((await lab.sudoLog()).at(-1)).toContain('not allowed');
  });

  it('leaves no process behind', async () => {
    expect(await lab.sudoProcesses()).toEqual([]);
    for (const user of Object.values(lab.users)) expect(await lab.processesOf(user)).toEqual([]);
  });
});

describe.skipIf(unable)('the lab', () => {
  const there = (path: string) =>
    access(path).then(
      () => true,
      () => false,
    );

  async function traces(id: string): Promise<readonly string[]> {
    const found: string[] = [];
    for (const file of ['/etc/passwd', '/etc/group', '/etc/shadow']) {
      if ((await readFile(file, 'utf8')).includes(`mwl${id}`)) found.push(file);
    }
    for (const path of [sudoersOf(id), rootOf(id)]) if (await there(path)) found.push(path);
    const left = await processesWhere(({ command }) => command.includes(`mwl${id}`));
    return [...found, ...left.map(({ command }) => command)];
  }

  it('removes all that it made', async () => {
    const lab = await startLab();
    const { alice, bob } = lab.users;
    const server = await lab.startTmuxAs(alice);
    await lab.startTmuxAs(bob, { version: '3.8' });
    process.kill(await server.pid(), 'SIGSTOP');
    expect(await there(`/tmp/tmux-${alice.uid}/default`)).toBe(true);
    expect((await traces(lab.id)).length).toBeGreaterThan(4);
    await lab[Symbol.asyncDispose]();
    expect(await traces(lab.id)).toEqual([]);
    expect(await there(`/tmp/tmux-${alice.uid}`)).toBe(false);
    expect(await processesWhere(({ uid }) => uid === alice.uid || uid === bob.uid)).toEqual([]);
  });

  it('removes what a killed run left, and not what a living one has', async () => {
    await using living = await startLab();
    const module = new URL('./lab.ts', import.meta.url).href;
    const killed = execa(
      process.execPath,
      [
        '-e',
        `import(${JSON.stringify(module)}).then(async ({ startLab }) => {
           const lab = await startLab();
           await lab.startTmuxAs(lab.users.alice);
           console.log(lab.id);
           setInterval(() => {}, 1000);
         })`,
      ],
      { reject: false, stdin: 'ignore' },
    );
    let id = '';
    killed.stdout.on('data', (text) => {
      id += String(text);
    });
    await eventually(() => id.endsWith('\n'), 'the other lab stands', 30_000);
    killed.kill('SIGKILL');
    await killed;
    expect((await traces(id.trim())).length).toBeGreaterThan(4);
    await using next = await startLab();
    expect(await traces(id.trim())).toEqual([]);
    expect((await traces(living.id)).length).toBeGreaterThan(4);
    expect(next.id).not.toBe(living.id);
  });
});
