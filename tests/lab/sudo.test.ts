import { access, readFile, stat } from 'node:fs/promises';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Processes } from '../../src/tmux/helper/process.ts';
import { lacks } from '../support/needs.ts';
import { stopProcess } from '../support/stop-process.ts';
import { eventually } from '../support/tmux-server.ts';
import { rootOf, sudoersOf, type User } from './accounts.ts';
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

  /** The process that forks clients for a helper hears of its end, and ends a moment later. */
  const nothingOf = (user: User) => expect.poll(() => lab.processesOf(user)).toEqual([]);

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

  /** What is tried, and as which words behind `sudo -n`, with the member's name and the helper's two. */
  type Words = (member: string, helper: string, act: string) => readonly string[];
  const abuses: readonly (readonly [string, Words])[] = [
    ['the helper without a verb', (member, helper) => ['-u', member, helper]],
    ['a second word', (member, helper) => ['-u', member, helper, 'serve', 'extra']],
    ['an empty second word', (member, helper) => ['-u', member, helper, 'serve', '']],
    ['an act by the name that is not recorded', (member, helper) => ['-u', member, helper, 'act']],
    [
      'a start by the name that is not recorded',
      (member, helper) => ['-u', member, helper, 'start'],
    ],
    ['a wildcard as verb', (member, helper) => ['-u', member, helper, '*']],
    ['reads by the name of acts', (member, _, act) => ['-u', member, act, 'serve']],
    ['a control client by the name of acts', (member, _, act) => ['-u', member, act, 'control']],
    ['a verb twice', (member, _, act) => ['-u', member, act, 'act', 'act']],
    [
      'the helper by a way round',
      (member, helper) => ['-u', member, `${helper}/../muxwarden-member`, 'serve'],
    ],
    [
      'a copy of the helper',
      (member) => ['-u', member, `${lab.users.service.home}/muxwarden-member`, 'serve'],
    ],
    ['the helper by perl', (member, helper) => ['-u', member, '/usr/bin/perl', helper, 'serve']],
    ['a shell', (member) => ['-u', member, '/bin/sh', '-c', 'id']],
    ['tmux itself', (member) => ['-u', member, '/usr/bin/tmux', 'kill-server']],
    ["root's group", (member, helper) => ['-u', member, '-g', 'root', helper, 'serve']],
    ['the own environment', (member, helper) => ['-u', member, '-E', helper, 'serve']],
    [
      'one variable kept',
      (member, helper) => ['-u', member, '--preserve-env=HOME', helper, 'serve'],
    ],
    ['a variable for perl', (member, helper) => ['-u', member, 'PERL5OPT=-MEvil', helper, 'serve']],
    [
      'a library to load',
      (member, helper) => ['-u', member, 'LD_PRELOAD=/tmp/x.so', helper, 'serve'],
    ],
    ['another directory', (member, helper) => ['-u', member, '-D', '/root', helper, 'serve']],
    ['another root', (member, helper) => ['-u', member, '-R', '/', helper, 'serve']],
    ['more descriptors', (member, helper) => ['-u', member, '-C', '5', helper, 'serve']],
    ['a longer time for an act', (member, _, act) => ['-u', member, '-T', '3600', act, 'act']],
    ['by way of a shell', (member, helper) => ['-u', member, '-s', helper, 'serve']],
    ['by way of a login', (member, helper) => ['-u', member, '-i', helper, 'serve']],
    ['an editor', (member) => ['-u', member, '-e', '/etc/hosts']],
    ['root as member', (_, helper) => ['-u', 'root', helper, 'serve']],
    ['root by number', (_, helper) => ['-u', '#0', helper, 'serve']],
    ['the service itself', (_, helper) => ['-u', lab.users.service.name, helper, 'serve']],
    ['an account of the system', (_, helper) => ['-u', 'daemon', helper, 'serve']],
    ['nobody in particular', (_, helper) => [helper, 'serve']],
    ['the group of the members', (_, helper) => ['-g', `mwl${lab.id}-members`, helper, 'serve']],
  ];

  it.each(abuses)('refuses %s, and records it', async (_, words) => {
    const { alice, service } = lab.users;
    const { helper, helperAct } = lab.installation;
    await runAs(service, ['cp', helper, `${service.home}/muxwarden-member`]);
    const before = (await lab.sudoLog()).length;
    const { exitCode, stdout } = await sudo(...words(alice.name, helper, helperAct));
    const logged = (await lab.sudoLog()).slice(before).join('\n');
    expect({ exitCode, stdout, logged }).toEqual({
      exitCode: 1,
      stdout: '',
      logged: expect.stringMatching(/not allowed|not permitted|command not allowed|unknown user/),
    });
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

  it('gives the helper nothing of the caller: no environment, no directory, no descriptor, no right', async () => {
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
    // It and the process that forks its clients, with a pipe each way between them.
    const pair = await eventually(async () => {
      const own = await processesWhere(({ uid }) => uid === alice.uid);
      const found = [`${helper} serve`, 'muxwarden-member: starter'].flatMap((words) =>
        own.filter(({ command }) => command.includes(words)),
      );
      const open = await Promise.all(
        found.map(({ pid }) => execa('ls', ['-l', `/proc/${pid}/fd`])),
      );
      const pipes = open.map(({ stdout }) => [...stdout.matchAll(/(\d+) -> pipe:/g)].length);
      const all = open.map(({ stdout }) => stdout.trim().split('\n').length - 1);
      return `${all}` === '5,3' && pipes.every((count) => count >= 2) ? found : undefined;
    }, 'the helper runs, with no other descriptor');
    for (const { pid } of pair) {
      expect((await execa('readlink', [`/proc/${pid}/cwd`])).stdout).toBe('/');
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8');
      expect(environment).not.toMatch(/SECRET|PERL5|TMUX/);
    }
    const proc = `/proc/${pair[0]?.pid}`;
    const status = await readFile(`${proc}/status`, 'utf8');
    expect(status.match(/^Cap(Inh|Prm|Eff|Amb):\s+0+$/gm)).toHaveLength(4);
    expect(/^Groups:\s+(.*?)\s*$/m.exec(status)?.[1]?.split(' ')).toHaveLength(2);
    expect(/^Groups:.*$/m.exec(status)?.[0]).not.toContain(` ${service.gid} `);
    running.stdin.end();
    expect((await running).exitCode).toBe(0);
    await nothingOf(alice);
  });

  it('leaves nothing of a helper that its member has stopped: sudo hears the end, and passes it on', async () => {
    const { bob, service } = lab.users;
    const { helper } = lab.installation;
    const own = ['--reuid', `${service.uid}`, '--regid', `${service.gid}`, '--clear-groups'];
    const running = await new Processes(1).open(
      {
        file: 'setpriv',
        args: [...own, 'sudo', '-n', '-u', bob.name, helper, 'serve'],
        environment: { PATH: process.env.PATH ?? '' },
      },
      'read',
    );
    const [started] = await eventually(async () => {
      const found = await lab.processesOf(bob);
      return found.length > 0 ? found : undefined;
    }, 'the helper runs');
    await lab.runAs(bob, ['kill', '-STOP', `${started?.pid}`]);
    const stopped = async () =>
      /^State:\s+T/m.test(await readFile(`/proc/${running.pid}/status`, 'utf8'));
    await eventually(stopped, 'sudo stops with it');
    expect(await running.end()).toMatchObject({ signal: 'SIGTERM' });
    await nothingOf(bob);
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
    await expect.poll(() => lab.sudoProcesses()).toEqual([]);
    for (const user of Object.values(lab.users)) await nothingOf(user);
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
    await stopProcess(await server.pid());
    expect(await there(`/tmp/tmux-${alice.uid}/default`)).toBe(true);
    expect((await traces(lab.id)).length).toBeGreaterThan(4);
    // Its uids may be those of another lab afterwards, so it is these very things that are looked for.
    const folder = () =>
      stat(`/tmp/tmux-${alice.uid}`).then(
        ({ ino, birthtimeMs }) => `${ino} ${birthtimeMs}`,
        () => 'none',
      );
    const before = await folder();
    const theirs = await processesWhere(({ uid }) => uid === alice.uid || uid === bob.uid);
    expect(theirs.length).toBeGreaterThan(2);
    await lab[Symbol.asyncDispose]();
    expect(await traces(lab.id)).toEqual([]);
    expect(await folder()).not.toBe(before);
    const left = await processesWhere(({ pid }) => theirs.some((each) => each.pid === pid));
    expect(left).toEqual([]);
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
