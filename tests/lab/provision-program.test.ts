import { chmod, chown, lstat, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { rounds } from '../support/tier.ts';
import { groupOf } from './accounts.ts';
import { type Lab, startLab } from './lab.ts';
import { accountOf, installProvisioning, type Provisioning } from './provisioning.ts';

/**
 * The program that makes accounts, as root calls it: real accounts, hostile logins, what is in its way,
 * and SIGKILL at each call to the kernel by which it changes something.
 */

const changes = [
  'clone',
  'rename',
  'wait4',
  'fchown',
  'mkdir',
  'fchmod',
  'fsync',
  'unlink',
  'rmdir',
];

describe.skipIf(lacks('root', 'sudo', 'visudo', 'strace'))(
  'the program that makes accounts',
  () => {
    let lab: Lab;
    let program: Provisioning;
    beforeAll(async () => {
      lab = await startLab();
      program = await installProvisioning(lab);
    }, 60_000);
    afterAll(() => lab?.[Symbol.asyncDispose]());

    const inGroup = async (name: string) =>
      (await execa('id', ['-nG', name])).stdout.split(' ').includes(groupOf(lab.id));

    async function isWhole(login: string): Promise<void> {
      const name = program.account(login);
      const account = await accountOf(name);
      const { uid } = account;
      expect(account).toMatchObject({ exists: true, gid: uid, home: join(program.homes, name) });
      expect(account.password).toMatch(/^[!*]/);
      expect(account.group).toEqual({ gid: uid, members: '' });
      expect(await inGroup(name)).toBe(true);
      const home = await lstat(account.home);
      expect([home.uid, home.gid, home.mode & 0o7777]).toEqual([uid, uid, 0o700]);
      const hooks = await lstat(join(program.hooks, name));
      const service = lab.users.service.uid;
      expect([hooks.uid, hooks.gid, hooks.mode & 0o7777]).toEqual([service, uid, 0o2710]);
    }

    async function isGone(login: string): Promise<void> {
      const name = program.account(login);
      expect(await accountOf(name)).toMatchObject({ exists: false, group: null });
      for (const folder of [program.homes, program.hooks])
        await expect(lstat(join(folder, name))).rejects.toThrow('ENOENT');
    }

    it('makes an account with a home of its own, without a password, once', async () => {
      expect(await program.ask('create', 'once')).toMatchObject({ status: 0, code: undefined });
      await isWhole('once');
      const again = await program.ask('create', 'once');
      expect(again.rows.filter(([kind]) => kind === 'did')).toEqual([]);
      expect((await program.ask('delete', 'once')).code).toBeUndefined();
      await isGone('once');
      expect((await program.ask('delete', 'once')).code).toBeUndefined();
    });

    it('never gives the uid of a deleted account to another', async () => {
      const uids = new Set<number>();
      for (const login of ['one', 'one', 'two']) {
        await program.ask('create', login);
        uids.add((await accountOf(program.account(login))).uid);
        await program.ask('delete', login);
      }
      expect(uids.size).toBe(3);
    });

    it('refuses logins that are none, before it looks at anything', async () => {
      const long = 'a'.repeat(33 - program.account('').length);
      for (const login of [
        '',
        'Root',
        '-x',
        '.',
        '../x',
        'a/b',
        'a b',
        'a;id',
        'a\nb',
        'a$',
        'ä',
        long,
      ]) {
        const { status, rows } = await program.ask('create', login);
        expect([login, status, rows]).toEqual([login, 10, [['']]]);
      }
      for (const line of [
        '1 delete login=61\n',
        '1 create login=61 uid=0\n',
        '1 create login=6\n',
        'x',
      ])
        expect(
          (await execa(program.program, ['create'], { input: line, reject: false })).exitCode,
        ).toBe(10);
      expect((await execa(program.program, ['purge'], { reject: false })).stderr).toContain(
        'create, delete, look, resume, suspend',
      );
    });

    it('refuses an account, a group and a home that it did not make', async () => {
      const theirs = await accountOf(program.account('alice'));
      for (const verb of ['look', 'create', 'suspend', 'resume', 'delete'])
        expect([verb, (await program.ask(verb, 'alice')).code]).toEqual([verb, 'EFOREIGN']);
      expect(await accountOf(program.account('alice'))).toEqual(theirs);
      expect((await program.ask('create', 'members')).code).toBe('EFOREIGN');
      const home = join(program.homes, program.account('homed'));
      for (const make of [
        () => symlink('/etc', home),
        () => mkdir(home),
        () => writeFile(home, ''),
      ]) {
        await make();
        expect((await program.ask('create', 'homed')).code).toBe('EHOME');
        await rm(home, { recursive: true });
      }
      expect((await accountOf(program.account('homed'))).exists).toBe(false);
    });

    it('refuses an account of its own name that somebody else made in the meantime', async () => {
      await program.ask('create', 'again');
      const name = program.account('again');
      await execa('userdel', [name]);
      await execa('useradd', ['-M', '-u', '45678', '-d', join(program.homes, name), name]);
      for (const verb of ['look', 'create', 'suspend', 'delete'])
        expect([verb, (await program.ask(verb, 'again')).code]).toEqual([verb, 'EFOREIGN']);
      expect((await accountOf(name)).uid).toBe(45_678);
      await execa('userdel', [name]);
    });

    it('touches no account that got privileges in the meantime', async () => {
      await program.ask('create', 'risen');
      const name = program.account('risen');
      const { uid } = await accountOf(name);
      const rule = `/etc/sudoers.d/mwl${lab.id}-provision`;
      const rules = await readFile(rule, 'utf8');
      const gains: readonly [string, () => Promise<unknown>, () => Promise<unknown>][] = [
        [
          'group sudo',
          () => execa('gpasswd', ['-a', name, 'sudo']),
          () => execa('gpasswd', ['-d', name, 'sudo']),
        ],
        [
          'group adm',
          () => execa('gpasswd', ['-a', name, 'adm']),
          () => execa('gpasswd', ['-d', name, 'adm']),
        ],
        [
          'others in its group',
          () => execa('gpasswd', ['-a', lab.users.bob.name, name]),
          () => execa('gpasswd', ['-d', lab.users.bob.name, name]),
        ],
        [
          'its own main group',
          () => execa('usermod', ['-g', '0', name]),
          () => execa('usermod', ['-g', String(uid), name]),
        ],
        [
          'a uid that is shared',
          () => execa('usermod', ['-o', '-u', String(uid), lab.users.carol.name]),
          () => execa('usermod', ['-u', String(lab.users.carol.uid), lab.users.carol.name]),
        ],
        [
          'sudoers',
          () => writeFile(rule, `${rules}${name} ALL=(root) NOPASSWD: /bin/true\n`),
          () => writeFile(rule, rules),
        ],
      ];
      for (const [gain, give, take] of gains) {
        await give();
        for (const verb of ['look', 'create', 'suspend', 'resume', 'delete'])
          expect([gain, verb, (await program.ask(verb, 'risen')).code]).toEqual([
            gain,
            verb,
            'EPRIVILEGED',
          ]);
        await take();
      }
      await isWhole('risen');
      expect((await program.ask('delete', 'risen')).code).toBeUndefined();
    });

    it('suspends and gives back, and lets nobody log in meanwhile', async () => {
      await program.ask('create', 'away');
      const name = program.account('away');
      const enters = async () =>
        (await execa('su', [name, '-c', 'true'], { reject: false })).exitCode === 0;
      expect(await enters()).toBe(true);
      await program.ask('suspend', 'away');
      expect(await enters()).toBe(false);
      expect((await program.ask('create', 'away')).code).toBe('ESUSPENDED');
      await program.ask('resume', 'away');
      expect(await enters()).toBe(true);
      await isWhole('away');
    });

    it('deletes servers first, then what else runs, and a home full of traps as its owner', async () => {
      await program.ask('create', 'trap');
      const { uid, home } = await accountOf(program.account('trap'));
      const witness = join(program.homes, 'witness');
      await mkdir(witness);
      await writeFile(join(witness, 'file'), 'not theirs');
      await chown(join(witness, 'file'), uid, uid);
      const user = { ...lab.users.alice, name: program.account('trap'), uid, gid: uid, home };
      await lab.runAs(user, [
        'sh',
        '-c',
        `cd ~; mkdir -p a/b c; ln -s ${witness} a/link; ln -s / c/root; mkfifo a/pipe; echo x > a/b/x; chmod 000 a/b; (trap '' TERM HUP; exec setsid sleep 600) >/dev/null 2>&1 & tmux -f /dev/null new-session -d`,
      ]);
      const server = (await lab.processesOf(user)).find(({ command }) =>
        command.startsWith('tmux'),
      );
      const gone = await program.ask('delete', 'trap');
      expect(gone.code).toBeUndefined();
      const ended = gone.rows.filter(([kind]) => kind === 'ended');
      expect(ended[0]?.[1]).toBe(String(server?.pid));
      expect(ended.length).toBeGreaterThanOrEqual(3);
      expect(gone.rows).toContainEqual(['removed', `the home ${home}`]);
      expect(await lab.processesOf(user)).toEqual([]);
      await isGone('trap');
      expect(await readFile(join(witness, 'file'), 'utf8')).toBe('not theirs');
      await expect(lstat(`/tmp/tmux-${uid}`)).rejects.toThrow('ENOENT');
    });

    it('keeps a home with files of others in it, and says so; DELETE goes on when they are gone', async () => {
      await program.ask('create', 'shared');
      const { home } = await accountOf(program.account('shared'));
      await mkdir(join(home, 'roots'), { mode: 0o755 });
      await writeFile(join(home, 'roots', 'file'), '');
      const refused = await program.ask('delete', 'shared');
      expect([refused.code, (await accountOf(program.account('shared'))).exists]).toEqual([
        'EHOME',
        true,
      ]);
      await rm(join(home, 'roots'), { recursive: true });
      expect((await program.ask('delete', 'shared')).code).toBeUndefined();
      await isGone('shared');
    });

    it('refuses rules, a registry and itself where others may write', async () => {
      const conf = `${program.program}.conf`;
      const rules = await readFile(conf, 'utf8');
      const { bob } = lab.users;
      await chown(conf, bob.uid, bob.gid);
      expect(await program.ask('look', 'x')).toMatchObject({ status: 14 });
      await chown(conf, 0, 0);
      await chmod(conf, 0o666);
      expect(await program.ask('look', 'x')).toMatchObject({ status: 14 });
      await chmod(conf, 0o644);
      for (const bad of [
        'prefix=Root\n',
        'shell=bash\n',
        'homes=/home/../etc\n',
        'uid=0\n',
        'prefix\n',
      ]) {
        await writeFile(conf, bad);
        expect([bad, (await program.ask('look', 'x')).status]).toEqual([bad, 14]);
      }
      await rm(conf);
      expect(await program.ask('create', 'x')).toMatchObject({ status: 14 });
      await writeFile(conf, rules, { mode: 0o644 });
      await chmod(program.registry, 0o770);
      expect((await program.ask('create', 'x')).code).toBe('ECONF');
      await chmod(program.registry, 0o700);
      expect((await program.ask('look', 'x')).code).toBeUndefined();
    });

    it('takes nothing from its environment', async () => {
      const marks = join(program.homes, 'marks');
      await mkdir(marks);
      await writeFile(join(marks, 'Evil.pm'), `open my $f, '>', '${marks}/loaded'; 1;`);
      await writeFile(join(marks, 'useradd'), `#!/bin/sh\n: > ${marks}/ran\n`, { mode: 0o755 });
      const env = {
        PERL5OPT: '-MEvil',
        PERL5LIB: marks,
        PATH: marks,
        BASH_ENV: '/dev/null',
        IFS: 'a',
      };
      const input = `1 create login=${Buffer.from('clean').toString('hex')}\n`;
      await execa(program.program, ['create'], { input, env, reject: false, extendEnv: false });
      await isWhole('clean');
      for (const mark of ['loaded', 'ran'])
        await expect(lstat(join(marks, mark))).rejects.toThrow('ENOENT');
    });

    /** Runs a verb with SIGKILL at each change that it makes; gives how many there were. */
    async function killedAtEach(verb: string, login: string, each: () => Promise<void>) {
      let places = 0;
      for (const call of changes.slice(0, rounds(3, changes.length))) {
        for (let n = 1; ; n += rounds(5, 1)) {
          await program.ask(verb === 'create' ? 'delete' : 'create', login);
          const inject = `inject=${call}:signal=KILL:when=${n}`;
          const under = ['strace', '-qq', '-o', '/dev/null', '-e', inject];
          const { signal } = await program.ask(verb, login, under);
          if (signal !== 'SIGKILL') break;
          places += 1;
          await each();
        }
      }
      return places;
    }

    it('bears SIGKILL at each step of making an account: the next call completes it', async () => {
      const steps = await killedAtEach('create', 'killed', async () => {
        expect((await program.ask('look', 'killed')).code).toBeUndefined();
        expect((await program.ask('create', 'killed')).code).toBeUndefined();
        await isWhole('killed');
      });
      console.info(`making an account: ${steps} places to be killed at`);
      expect(steps).toBeGreaterThan(rounds(2, 15));
    }, 300_000);

    it.each([
      ['the group', 'before its own group is there', 1],
      ['the user', 'when its own group is there', 2],
    ])(
      'takes another number where %s of somebody else got it meanwhile, %s',
      async (what, _, at) => {
        const login = `late${at}`;
        const inject = `inject=clone:signal=KILL:when=${at}`;
        const under = ['strace', '-qq', '-o', '/dev/null', '-e', inject];
        expect((await program.ask('create', login, under)).signal).toBe('SIGKILL');
        const name = program.account(login);
        const promised = async () =>
          (await readFile(join(program.registry, name), 'utf8')).split(' ')[1] ?? '';
        const uid = await promised();
        const other = program.account(`other${at}`);
        const add =
          what === 'the group'
            ? ['groupadd', '-g', uid, other]
            : ['useradd', '-o', '-u', uid, '-M', '-N', '-g', 'nogroup', other];
        await execa('sudo', ['-n', ...add]);
        try {
          expect((await program.ask('create', login)).code).toBeUndefined();
          await isWhole(login);
          expect(await promised()).not.toBe(uid);
          expect((await program.ask('delete', login)).code).toBeUndefined();
        } finally {
          await execa('sudo', ['-n', what === 'the group' ? 'groupdel' : 'userdel', other]);
        }
      },
    );

    it('bears SIGKILL at each step of deleting one', async () => {
      const steps = await killedAtEach('delete', 'killed', async () => {
        const now = await program.ask('look', 'killed');
        expect(now.code).toBeUndefined();
        expect((await program.ask('delete', 'killed')).code).toBeUndefined();
        await isGone('killed');
      });
      console.info(`deleting one: ${steps} places to be killed at`);
      expect(steps).toBeGreaterThan(rounds(2, 15));
    }, 300_000);

    it('does one thing at a time', async () => {
      const both = await Promise.all([
        program.ask('create', 'twin'),
        program.ask('create', 'twin'),
      ]);
      expect(both.map(({ code }) => code)).toEqual([undefined, undefined]);
      await isWhole('twin');
      expect(both.flatMap(({ rows }) => rows).filter(([kind]) => kind === 'did')).toHaveLength(5);
    });
  },
);
