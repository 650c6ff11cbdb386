import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  provisionCapabilities,
  provisionSudoers,
  service,
  sudoers,
} from '../../src/cli/install/texts.ts';
import { type OwnMachine, repository, startOwnMachine } from '../lab/own-machine.ts';
import { type Client, connect } from '../support/graphql-over-http.ts';
import { lacks } from '../support/needs.ts';
import { rounds } from '../support/tier.ts';
import { eventually } from '../support/tmux-server.ts';

/** One installation from before to after, on a machine of its own with a real systemd and sudo. */

const unable = lacks('root', 'sudo', 'visudo', 'systemctl', 'unshare', 'tmux');

describe.skipIf(unable)('install-system', () => {
  let machine: OwnMachine;
  let untouched: string;
  beforeAll(async () => {
    machine = await startOwnMachine();
    await machine.sh('useradd --uid 61001 --create-home mw-alice; useradd --uid 61002 mw-bob');
    untouched = await everything();
  });
  afterAll(() => machine?.[Symbol.asyncDispose]());

  const install = (...words: string[]) => machine.muxwarden(['install-system', ...words]);

  /** Whatever an installation could touch: names, owners, modes, times, and the lists of accounts. */
  const everything = () =>
    machine
      .sh(`cd /; getent passwd; getent group; getent shadow
      find opt/muxwarden etc/muxwarden etc/sudoers.d etc/sudoers etc/systemd/system usr/local/sbin \\
        var/lib/muxwarden var/lib/muxwarden-hooks -printf '%p %u %g %m %s %T@\\n' 2>/dev/null | grep -v '^etc/systemd/system ' | sort
      exit 0`)
      .then((text) =>
        text.replaceAll(/^(\S+ \S+ \S+ \d+) \d+ [\d.]+$/gm, (line, start) =>
          // A folder's size and time tell only that something came and went.
          /^(opt|etc\/sudoers\.d|usr\/local\/sbin) /.test(line) ? start : line,
        ),
      );

  async function documented(name: string, language: string): Promise<string | undefined> {
    const page = await readFile(join(repository, `docs/${name}.md`), 'utf8');
    return new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, 'm').exec(page)?.[1];
  }

  const refusals = [
    [
      'a privileged account of its name',
      'useradd --system -G sudo muxwarden',
      'userdel muxwarden',
      /account muxwarden already.*group sudo.*shell/,
    ],
    [
      'a group with root in it',
      'groupadd muxwarden-members; gpasswd -a root muxwarden-members',
      'groupdel muxwarden-members',
      /root \(it is root.*gpasswd -d/,
    ],
    [
      'a rule of somebody else',
      'echo "# mine" >/etc/sudoers.d/muxwarden',
      'rm /etc/sudoers.d/muxwarden',
      /sudoers\.d\/muxwarden is in the way: muxwarden did not make it/,
    ],
    [
      'a link where the unit goes',
      'ln -s /etc/hosts /etc/systemd/system/muxwarden.service',
      'rm /etc/systemd/system/muxwarden.service',
      /muxwarden\.service is in the way: it is no plain file/,
    ],
    [
      'a state folder of somebody else',
      'install -d -o mw-bob /var/lib/muxwarden',
      'rmdir /var/lib/muxwarden',
      /\/var\/lib\/muxwarden is in the way: it belongs to/,
    ],
    [
      'a folder that others can write',
      'chmod o+w /opt',
      'chmod o-w /opt',
      /can change \/opt,.*chmod go-w \/opt/,
    ],
    [
      'no visudo',
      'mv /usr/sbin/visudo /usr/sbin/visudo.away',
      'mv /usr/sbin/visudo.away /usr/sbin/visudo',
      /no visudo here.*apt-get install sudo/,
    ],
    [
      'no sudo',
      'mv /usr/bin/sudo /usr/bin/sudo.away',
      'mv /usr/bin/sudo.away /usr/bin/sudo',
      /no sudo here.*apt-get install sudo/,
    ],
  ] as const;

  it.each(refusals)(
    'refuses %s in one sentence, and changes nothing',
    async (_, make, mend, said) => {
      await machine.sh(make);
      const before = await everything();
      const { exitCode, stdout, stderr } = await install();
      expect({ exitCode, stdout, stderr }).toEqual({
        exitCode: 1,
        stdout: '',
        stderr: expect.stringMatching(said),
      });
      expect(stderr.split('\n')).toHaveLength(1);
      expect(await everything()).toBe(before);
      await machine.sh(mend);
    },
  );

  it('refuses whoever is not root', async () => {
    const { exitCode, stderr } = await machine.muxwarden(['install-system'], { user: 'mw-alice' });
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/is for root\. Run it with sudo/),
    ]);
  });

  it('only says what it would do in a dry run', async () => {
    const { exitCode, stdout } = await install('--dry-run');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^would be made: account muxwarden$/m);
    expect(
      stdout
        .split('\n')
        .slice(0, -1)
        .every((line) => line.startsWith('would be made: ')),
    ).toBe(true);
    expect(await everything()).toBe(untouched);
  });

  it('takes back what it did when a step fails, and leaves the old state', async () => {
    await machine.sh('cp -p /etc/sudoers /etc/sudoers.away; sed -i /includedir/d /etc/sudoers');
    const { exitCode, stderr } = await install();
    await machine.sh('mv /etc/sudoers.away /etc/sudoers');
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^muxwarden: rule for sudo .*@includedir .* Everything is as it was before\.$/,
      ),
    ]);
    expect(await everything()).toBe(untouched);
  });

  it('makes all of it, as the documentation prints it, and the second time nothing', async () => {
    const { exitCode, stdout, stderr } = await install();
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toMatch(/^made +account muxwarden$/m);
    expect(await documented('deployment', 'sudoers')).toBe(sudoers);
    expect(await documented('deployment', 'ini')).toBe(service);
    expect(await documented('provisioning', 'sudoers')).toBe(provisionSudoers);
    expect(await documented('provisioning', 'ini')).toBe(provisionCapabilities);
    expect(await machine.sh('cat /etc/sudoers.d/muxwarden')).toBe(sudoers.trimEnd());
    expect(await machine.sh('cat /etc/systemd/system/muxwarden.service')).toBe(service.trimEnd());
    expect(
      await machine.sh(
        'stat -c "%n %U:%G %a" /etc/sudoers.d/muxwarden /opt/muxwarden/libexec/* /var/lib/muxwarden /var/lib/muxwarden-hooks /opt/muxwarden/program',
      ),
    ).toBe(
      [
        '/etc/sudoers.d/muxwarden root:root 440',
        '/opt/muxwarden/libexec/muxwarden-member root:root 755',
        '/opt/muxwarden/libexec/muxwarden-member-act root:root 755',
        '/var/lib/muxwarden muxwarden:muxwarden 700',
        '/var/lib/muxwarden-hooks root:root 711',
        '/opt/muxwarden/program root:root 755',
      ].join('\n'),
    );
    expect(await machine.sh('find /opt/muxwarden ! -user root -o -perm /022 ! -type l')).toBe('');
    expect(
      await machine.sh('visudo -c -q && systemd-analyze verify /etc/systemd/system/muxwarden*'),
    ).toBe('');
    const installed = await everything();
    const again = await install();
    expect(again.exitCode).toBe(0);
    expect(again.stdout).toMatch(/\nNothing was changed: all of it is as it should be\.$/);
    expect(again.stdout).not.toMatch(/^(made|updated)/m);
    expect(await everything()).toBe(installed);
  });

  it('runs without the clone that it came from, as a unit, and doctor has nothing to say', async () => {
    await machine.sh(`echo MUXWARDEN_PORT=0 >>/etc/muxwarden/environment
      usermod -aG muxwarden-members mw-alice
      systemctl enable --now --quiet muxwarden.service
      umount ${repository}`);
    await eventually(
      async () =>
        (await machine.run(['test', '-e', '/var/lib/muxwarden/state/service.json'])).exitCode === 0,
      'the unit serves',
      50_000,
    );
    await machine.sh('muxwarden members add alice --os-user mw-alice');
    const { stdout, stderr, exitCode } = await machine.run(['muxwarden', 'doctor']);
    expect({ stdout, stderr, exitCode }).toEqual({
      stdout: expect.not.stringContaining('PROBLEM'),
      stderr: 'All is well.',
      exitCode: 0,
    });
    expect(stdout).toMatch(/^ok +helper as alice \(mw-alice\): starts and ends$/m);
    const unit = await machine.sh('systemctl show muxwarden.service -p MainPID --value');
    expect(await machine.sh(`cat /proc/${unit}/cgroup; stat -c %U /proc/${unit}`)).toMatch(
      /muxwarden\.service\nmuxwarden$/,
    );
  }, 120_000);

  it('is restarted by its unit, from within, on record; never by a process of its own', async () => {
    const main = () => machine.sh('systemctl show muxwarden.service -p MainPID --value');
    const before = await main();
    const { exitCode, stdout, stderr } = await machine.run([
      'muxwarden',
      'restart',
      '--reason',
      'new settings',
    ]);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 0,
      stderr: 'muxwarden.service is being restarted.',
    });
    const after = await main();
    expect(stdout).toMatch(new RegExp(`^The service runs again, as process ${after} at http`));
    expect(after).not.toBe(before);
    expect(await machine.sh('systemctl show muxwarden.service -p NRestarts --value')).toBe('0');
    expect((await machine.sh('pgrep -u muxwarden -f "muxwarden.js serve"')).split('\n')).toEqual([
      after,
    ]);
    const record = await machine.sh('muxwarden audit export 2>/dev/null | grep RESTART_SERVICE');
    const rows = record.split('\n').map((line) => JSON.parse(line));
    expect(
      rows.map(({ phase, outcome, targetLabel, statedReason }) => [
        phase,
        outcome,
        targetLabel,
        statedReason,
      ]),
    ).toEqual([
      ['INTENT', null, 'muxwarden.service', 'new settings'],
      ['OUTCOME', 'SUCCEEDED', 'muxwarden.service', 'new settings'],
    ]);
  }, 120_000);

  const serviceNow = async (): Promise<Client> => {
    const record = JSON.parse(await machine.sh('cat /var/lib/muxwarden/state/service.json'));
    return connect(record.url, await machine.sh('cat /var/lib/muxwarden/state/admin.key'));
  };
  const asMember = (user: string, ...words: string[]) =>
    machine.run(['tmux', ...words], { user, environment: { HOME: '/', SHELL: '/bin/sh' } });

  it('is started again when it is killed: the same tmux servers, and streams that go on', async () => {
    const type = (text: string) => asMember('mw-alice', 'send-keys', '-t', 'main', text, 'Enter');
    await asMember('mw-alice', '-f', '/dev/null', 'new-session', '-d', '-s', 'main', 'exec sh');
    const pid = () => machine.sh('pgrep -u mw-alice -x "tmux: server"');
    const before = await pid();
    const first = await serviceNow();
    const paneId = await eventually(async () => {
      const { data } = await first.query<{ panes: { nodes: { id: string }[] } }>(
        '{ panes { nodes { id } } }',
      );
      return data?.panes.nodes[0]?.id;
    }, 'the pane is listed');
    interface Event {
      readonly __typename: string;
      readonly cursor?: string;
      readonly text?: string;
      readonly gapReason?: string;
    }
    const follow = (client: Client, after?: string, signal?: AbortSignal) =>
      client.subscribe<{ paneOutput: Event }>(
        `subscription ($paneId: ID!, $after: String) { paneOutput(paneId: $paneId, after: $after) {
          __typename ... on PaneSnapshot { cursor text } ... on PaneChunk { cursor text } ... on PaneGap { cursor gapReason } } }`,
        { paneId, after: after ?? null },
        signal,
      );
    let cursor: string | undefined;
    let text = '';
    for await (const { paneOutput } of follow(first)) {
      if (text === '') await type('echo one-$((1+1))');
      text += paneOutput.text ?? '';
      cursor = paneOutput.cursor;
      if (text.includes('one-2')) break;
    }
    const life = await machine.sh('cat /var/lib/muxwarden/state/service.json');
    await machine.sh('kill -KILL $(systemctl show muxwarden.service -p MainPID --value)');
    await type('echo two-$((2+2))');
    await eventually(
      async () => {
        const now = await machine.run(['cat', '/var/lib/muxwarden/state/service.json']);
        return now.exitCode === 0 && now.stdout !== life;
      },
      'systemd has started it again',
      50_000,
    );
    const events: Event[] = [];
    const seen = () => events.map((event) => event.text ?? '').join('');
    for await (const { paneOutput } of follow(await serviceNow(), cursor)) {
      events.push(paneOutput);
      if (paneOutput.__typename === 'PaneSnapshot') await type('echo three-$((3+3))');
      if (seen().includes('three-6')) break;
    }
    expect(events.slice(0, 2)).toMatchObject([
      { __typename: 'PaneGap', gapReason: 'SERVICE_RESTARTED' },
      { __typename: 'PaneSnapshot', text: expect.stringMatching(/one-2[\s\S]*two-4/) },
    ]);
    expect(await pid()).toBe(before);
    expect(await machine.sh('systemctl show muxwarden.service -p NRestarts --value')).toBe('1');
  }, 120_000);

  const hookFolders = async () =>
    (
      await machine.sh('cd /var/lib/muxwarden-hooks && stat -c "%n %U:%G %a" * 2>/dev/null || true')
    ).split('\n');

  it('gives each member a folder for hooks, also who comes into the group later', async () => {
    expect(await hookFolders()).toEqual(['mw-alice muxwarden:mw-alice 2710']);
    await machine.sh('gpasswd -a mw-bob muxwarden-members');
    await eventually(
      async () => (await hookFolders()).includes('mw-bob muxwarden:mw-bob 2710'),
      'the unit has seen it',
      50_000,
    );
    // Where there is no systemd, and twice.
    await machine.sh(
      'rmdir /var/lib/muxwarden-hooks/mw-bob; chmod 2750 /var/lib/muxwarden-hooks/mw-alice',
    );
    expect(await machine.sh('muxwarden install-system --hooks')).toMatch(
      /^made .*mw-alice: it has mode 2750.*\nmade .*mw-bob: it is not there$/,
    );
    expect(await machine.sh('muxwarden install-system --hooks')).toBe('');
    expect(await hookFolders()).toEqual([
      'mw-alice muxwarden:mw-alice 2710',
      'mw-bob muxwarden:mw-bob 2710',
    ]);
    expect(
      (await machine.run(['ls', '/var/lib/muxwarden-hooks/mw-alice/'], { user: 'mw-bob' })).stderr,
    ).toMatch(/Permission denied/);
    await machine.sh('gpasswd -d mw-bob muxwarden-members');
  }, 120_000);

  const crowd = Array.from({ length: rounds(2, 20) }, (_, index) => `mw-m${index}`);

  it(
    'asks each member by one sudo, with no line in the log, however many look',
    async () => {
      const seconds = rounds(4, 600);
      const client = await serviceNow();
      const calls = async () =>
        (
          await client.query<{ installation: { helperCalls: number } }>(
            '{ installation { helperCalls } }',
          )
        ).data?.installation.helperCalls ?? Number.NaN;
      const lines = async () =>
        Number(
          await machine.sh(
            'journalctl --sync; journalctl -q SYSLOG_FACILITY=10 -o cat | grep -c . || true',
          ),
        );
      const cpu = async () =>
        Number(await machine.sh('systemctl show muxwarden.service -p CPUUsageNSec --value')) / 1e9;
      for (const [index, name] of crowd.entries()) {
        await machine.sh(`useradd --groups muxwarden-members ${name}
        muxwarden members add m${index} --os-user ${name}`);
        await asMember(name, '-f', '/dev/null', 'new-session', '-d', 'exec sh');
      }
      const before = { calls: await calls(), lines: await lines(), cpu: await cpu() };
      const end = performance.now() + seconds * 1_000;
      let looks = 0;
      await Promise.all(
        Array.from({ length: 10 }, async () => {
          while (performance.now() < end) {
            const { data } = await client.query<{
              members: { nodes: { login: string; tmuxServers: unknown[] | null }[] };
            }>(
              '{ members(first: 100) { nodes { login tmuxServers { status sessions { name } } } } }',
            );
            looks += 1;
            if (looks > 20 && performance.now() > end - 2_000)
              for (const { login, tmuxServers } of data?.members.nodes ?? [])
                if (/^m\d/.test(login))
                  expect([login, tmuxServers]).toMatchObject([login, [{ status: 'RUNNING' }]]);
            await new Promise((resolve) => setTimeout(resolve, 1_000));
          }
        }),
      );
      const used = ((await cpu()) - before.cpu) / seconds;
      const made = (await calls()) - before.calls;
      console.info(
        `${crowd.length} members, 10 dashboards, ${seconds} s, ${looks} looks: ${made} calls of sudo, ${(100 * used).toFixed(1)} % of a core`,
      );
      expect(made).toBeLessThanOrEqual(2 * (crowd.length + 1));
      expect(await lines()).toBe(before.lines);
      expect(await hookFolders()).toEqual(
        expect.arrayContaining(crowd.map((name) => `${name} muxwarden:${name} 2710`)),
      );
    },
    rounds(120_000, 900_000),
  );

  /** What is broken, the check that names it, and the mend: what the remedy says, or a part of it. */
  const faults = [
    [
      'usermod --shell /bin/sh muxwarden',
      'account muxwarden',
      'usermod --shell /usr/sbin/nologin muxwarden',
    ],
    [
      'gpasswd -a mw-bob muxwarden-members; usermod -aG sudo mw-bob',
      'group muxwarden-members',
      'gpasswd -d mw-bob muxwarden-members',
    ],
    [
      'chmod 0775 /opt/muxwarden/libexec/muxwarden-member',
      'installed helper /opt/muxwarden/libexec/muxwarden-member',
    ],
    [
      'echo >>/opt/muxwarden/libexec/muxwarden-member-act',
      'installed helper /opt/muxwarden/libexec/muxwarden-member-act',
      'true',
    ],
    ['chmod 0444 /etc/sudoers.d/muxwarden', 'rule for sudo /etc/sudoers.d/muxwarden'],
    ['chmod 0711 /var/lib/muxwarden', 'state folder /var/lib/muxwarden'],
    [
      'chmod 0755 /var/lib/muxwarden-hooks/mw-alice',
      'folder for hooks /var/lib/muxwarden-hooks/mw-alice',
    ],
    [
      'useradd -g mw-bob -G muxwarden-members mw-eve',
      'folder for hooks /var/lib/muxwarden-hooks/mw-eve',
      'userdel mw-eve',
    ],
    ['chown mw-bob /etc/muxwarden/environment', 'settings file /etc/muxwarden/environment'],
    [
      'sed -i s/UMask=0077/UMask=0022/ /etc/systemd/system/muxwarden.service',
      'unit /etc/systemd/system/muxwarden.service',
      'mv /etc/systemd/system/muxwarden.service /root',
    ],
    [
      'rm /etc/systemd/system/muxwarden-restart.path',
      'unit /etc/systemd/system/muxwarden-restart.path',
      'true',
    ],
  ] as const;

  interface Check {
    readonly name: string;
    readonly ok: boolean;
    readonly detail: string;
    readonly remedy: string | null;
  }
  async function problems(): Promise<readonly Check[]> {
    const { stdout } = await machine.run(['muxwarden', 'doctor', '--json']);
    return stdout
      .split('\n')
      .map((line): Check => JSON.parse(line))
      .filter(({ ok }) => !ok);
  }

  it('has doctor name each fault, and what it says mends it', async () => {
    // It would mend one of them.
    await machine.sh('systemctl stop muxwarden-hooks.path');
    await machine.sh(faults.map(([fault]) => fault).join('\n'));
    const found = await problems();
    const names = found.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(faults.map(([, name]) => name)));
    for (const [, name, mend] of faults) {
      const remedy = found.find((each) => each.name === name)?.remedy ?? '';
      const said = remedy
        .match(/(?:chown|chmod|muxwarden install-system --hooks)[^;]*/g)
        ?.join('; ');
      await machine.sh(mend ?? said ?? `echo no command in: ${remedy}; false`);
    }
    await machine.sh('muxwarden install-system');
    expect(await problems()).toEqual([]);
  }, 120_000);

  it('has doctor say that it could not look, which is not that nothing is there', async () => {
    await machine.sh('mv /var/lib/muxwarden /var/lib/kept; ln -s muxwarden /var/lib/muxwarden');
    const found = await problems();
    await machine.sh('rm /var/lib/muxwarden; mv /var/lib/kept /var/lib/muxwarden');
    expect(found.find(({ name }) => name === 'state folder /var/lib/muxwarden')).toMatchObject({
      detail: expect.stringMatching(/^can't be looked at: ELOOP/),
      remedy: expect.stringContaining('namei -l /var/lib/muxwarden'),
    });
    expect(await problems()).toEqual([]);
  }, 120_000);

  it('lays down the program for accounts when it is asked to, and takes it away when not', async () => {
    const installed = (...words: string[]) =>
      machine.run(['muxwarden', 'install-system', ...words]);
    const ofIt = () =>
      machine.sh(
        'find /opt/muxwarden /etc/sudoers.d /etc/muxwarden /etc/systemd/system -name "*provision*" ! -path "*/program/*" -printf "%p %u %m\\n" | sort',
      );
    await machine.sh('cp -p /etc/sudoers /etc/sudoers.away; sed -i /includedir/d /etc/sudoers');
    const failed = await installed('--with-provisioning');
    await machine.sh('mv /etc/sudoers.away /etc/sudoers');
    expect(failed.stderr).toMatch(/@includedir .* Everything is as it was before\.$/);
    expect(await ofIt()).toBe('');

    expect((await installed('--with-provisioning')).exitCode).toBe(0);
    expect((await ofIt()).split('\n')).toEqual([
      '/etc/muxwarden/provisioning root 644',
      '/etc/sudoers.d/muxwarden-provision root 440',
      '/etc/systemd/system/muxwarden.service.d/provisioning.conf root 644',
      '/opt/muxwarden/libexec/muxwarden-provision root 755',
      '/opt/muxwarden/libexec/muxwarden-provision.conf root 644',
    ]);
    expect(
      await machine.sh(
        'sudo -l -U muxwarden | grep -o "muxwarden-provision [a-z]*$\\|muxwarden-provision [a-z]*,"',
      ),
    ).toMatch(/look,[\s\S]*delete$/);
    expect(await problems()).toEqual([]);
    expect((await installed('--with-provisioning')).stdout).toMatch(/\nNothing was changed: /);

    await machine.sh(`chmod 0775 /opt/muxwarden/libexec/muxwarden-provision
      sed -i s/300/900/ /etc/sudoers.d/muxwarden-provision; rm /etc/muxwarden/provisioning`);
    expect((await problems()).map(({ name }) => name)).toEqual(['program for accounts']);
    expect((await installed()).stderr).toMatch(
      /muxwarden-provision is in the way: it was changed since/,
    );
    await machine.sh('rm /etc/sudoers.d/muxwarden-provision');
    expect((await installed('--with-provisioning')).exitCode).toBe(0);

    const away = await installed();
    expect(away.stdout.match(/^removed .*$/gm)).toHaveLength(5);
    expect(await ofIt()).toBe('');
    expect(await machine.sh('sudo -l -U muxwarden')).not.toContain('provision');
    expect(await problems()).toEqual([]);
  }, 120_000);

  it('has doctor say that sudo allows more, or understands something else', async () => {
    await machine.sh(
      'echo "muxwarden ALL=(root) /usr/bin/id" >/etc/sudoers.d/zz; chmod 0440 /etc/sudoers.d/zz; gpasswd -d mw-alice muxwarden-members',
    );
    const found = await problems();
    const more = found.map(({ name }) => name);
    const refused = found.find(({ name }) => name === 'sudo for alice (mw-alice)');
    await machine.sh(/usermod .*/.exec(refused?.remedy ?? '')?.[0] ?? 'false');
    await machine.sh('rm /etc/sudoers.d/zz; sed -i "s/log_denied, //" /etc/sudoers.d/muxwarden');
    const less = (await problems()).map(({ name }) => name);
    expect([more, less]).toEqual(
      Array(2).fill(expect.arrayContaining(['rule for sudo /etc/sudoers.d/muxwarden'])),
    );
    const changed = await machine.run(['muxwarden', 'install-system']);
    expect([changed.exitCode, changed.stderr]).toEqual([
      1,
      expect.stringMatching(/is in the way: it was changed since/),
    ]);
    await machine.sh('rm /etc/sudoers.d/muxwarden; muxwarden install-system');
    expect(await problems()).toEqual([]);
  }, 120_000);

  it('takes away what it made and nothing else; members and their tmux servers go on', async () => {
    const alive = await machine.sh('pgrep -u mw-alice -x "tmux: server"');
    await machine.sh('cp -a /opt/muxwarden/program /root/again');
    const { exitCode, stdout } = await machine.run(['muxwarden', 'install-system', '--uninstall']);
    expect(exitCode).toBe(0);
    expect(stdout.match(/^kept .*$/gm)).toEqual([
      expect.stringMatching(/state \/var\/lib\/muxwarden: it holds the record/),
      expect.stringMatching(/settings \/etc\/muxwarden\/environment: it was changed since/),
      expect.stringMatching(/directory \/etc\/muxwarden: there is more in it/),
    ]);
    expect(await machine.sh('pgrep -u mw-alice -x "tmux: server"')).toBe(alive);
    expect(await machine.sh('stat -c "%U %a" /var/lib/muxwarden')).toBe('root 700');
  });

  it('goes on with the state that an earlier installation left, and ends without a trace', async () => {
    await machine.sh(
      '/root/again/node /root/again/bin/muxwarden.js install-system --with-provisioning',
    );
    await machine.sh('systemctl start muxwarden.service');
    await eventually(
      async () =>
        (await machine.run(['test', '-e', '/var/lib/muxwarden/state/service.json'])).exitCode === 0,
      'the unit serves',
      50_000,
    );
    const { data } = await (await serviceNow()).query<{
      members: { nodes: { login: string }[] };
      auditEvents: { nodes: { action: string }[] };
    }>(
      '{ members(first: 100) { nodes { login } } auditEvents(first: 100, filter: { action: [RESTART_SERVICE] }) { nodes { action } } }',
    );
    expect(data?.members.nodes.map(({ login }) => login)).toEqual(
      expect.arrayContaining(['alice', 'm0']),
    );
    expect(data?.auditEvents.nodes).toHaveLength(2);
    // Who is a member on the machine went with the group; doctor says how each comes back.
    const missing = (await problems()).map(
      ({ remedy }) => /usermod .*/.exec(remedy ?? '')?.[0] ?? 'true',
    );
    await machine.sh(`${missing.join('\n')}\nmuxwarden install-system --hooks`);
    expect(await problems()).toEqual([]);
    await machine.sh('muxwarden audit verify; muxwarden install-system --uninstall');
    await machine.sh('rm -r /var/lib/muxwarden /etc/muxwarden /root/again; gpasswd -d mw-bob sudo');
    for (const name of crowd) {
      await asMember(name, 'kill-server');
      await eventually(
        async () => (await machine.run(['userdel', name])).exitCode === 0,
        `nothing of ${name} runs`,
      );
    }
    const lists = (text: string) =>
      text.split('\n').filter((line) => !/:|^etc\/sudoers /.test(line));
    expect(lists(await everything())).toEqual(lists(untouched));
    expect(
      await machine.sh(
        'getent passwd muxwarden || getent group muxwarden || getent group muxwarden-members || true',
      ),
    ).toBe('');
  });
});
