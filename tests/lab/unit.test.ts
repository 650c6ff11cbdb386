import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, connect } from '../support/graphql-over-http.ts';
import { lacks } from '../support/needs.ts';
import { eventually } from '../support/tmux-server.ts';
import { type OwnMachine, startOwnMachine } from './own-machine.ts';

/**
 * The service as a unit of a real systemd, as `install-system` lays it down: its restarts, stops and
 * crashes end nobody's tmux, also where the service itself has started it.
 */

const state = '/var/lib/muxwarden/state';

describe.skipIf(lacks('root', 'sudo', 'visudo', 'systemctl', 'unshare', 'tmux'))(
  'as a unit',
  () => {
    let machine: OwnMachine;
    let client: Client;
    let keys = 0;

    beforeAll(async () => {
      machine = await startOwnMachine();
      // No lab has these uids: it would end their processes with its own. Dana's is to follow the last.
      await machine.sh(`useradd -u 61101 -m -s /bin/sh alice; useradd -u 61102 -m -s /bin/sh bob
      useradd -u 58900 last`);
      await machine.sh('loginctl enable-linger alice');
      const installed = await machine.muxwarden(['install-system', '--with-provisioning']);
      expect([installed.exitCode, installed.stderr]).toEqual([0, '']);
      await machine.sh(`
      gpasswd -a alice muxwarden-members; gpasswd -a bob muxwarden-members
      echo MUXWARDEN_PORT=0 >>/etc/muxwarden/environment
      mkdir -p /etc/systemd/system/muxwarden.service.d
      # Lower than anybody's, so that it would be seen in what is started.
      printf '[Service]\\nLimitNOFILE=4096:4096\\n' >/etc/systemd/system/muxwarden.service.d/low.conf
      systemctl daemon-reload; systemctl start muxwarden`);
      await connected();
      for (const member of ['alice', 'bob']) {
        await machine.sh(`muxwarden members add ${member} --os-user ${member}`);
        await machine.sh(`tmux -f /dev/null new-session -d -s main`, { user: member });
      }
    }, 120_000);
    afterAll(() => machine?.[Symbol.asyncDispose]());

    /** Until the service of now answers: it has another port after each start. */
    async function connected(): Promise<void> {
      const key = async () =>
        (await readFile(machine.path(`${state}/admin.key`), 'utf8').catch(() => '')).trim();
      client = await eventually(
        async () => {
          const main = (await machine.sh('systemctl show -P MainPID muxwarden')).trim();
          const record = await machine.run(['cat', `${state}/service.json`]);
          const said = JSON.parse(record.stdout || '{}') as { url?: string; pid?: number };
          if (said.url === undefined || String(said.pid) !== main) return undefined;
          const now = connect(said.url, await key());
          const { data } = await now.query('{ viewer { role } }').catch(() => ({ data: null }));
          return data === null ? undefined : now;
        },
        'the unit answers',
        60_000,
      );
    }

    interface Server {
      readonly id: string;
      readonly generation: string;
      readonly pid: number;
      readonly sessions: readonly { windows: readonly { panes: readonly { pid: number }[] }[] }[];
    }

    async function serverOf(login: string): Promise<Server> {
      return eventually(async () => {
        const { data } = await client.query<{
          member: { id: string; tmuxServers: Server[] | null };
        }>(
          'query ($login: String!) { member(login: $login) { id tmuxServers { id generation pid sessions { windows { panes { pid } } } } } }',
          { login },
        );
        return data?.member?.tmuxServers?.[0]?.sessions ? data.member.tmuxServers[0] : undefined;
      }, `${login} has a server`);
    }

    /** Restarts the member's server by the service; gives its processes and what was said of it. */
    async function restarted(login: string) {
      const { id, generation } = await serverOf(login);
      const { data, errors } = await client.query<{
        restartTmuxServer: { tmuxServer: Server; notRestored: { what: string; detail: string }[] };
      }>(
        `mutation ($input: RestartTmuxServerInput!) { restartTmuxServer(input: $input) {
        __typename ... on UserError { code message }
        ... on RestartTmuxServerPayload { notRestored { what detail } tmuxServer { id generation pid sessions { windows { panes { pid } } } } }
      } }`,
        {
          input: {
            ...{ tmuxServerId: id, expectedGeneration: generation },
            idempotencyKey: `k-${++keys}`,
          },
        },
      );
      expect(errors).toEqual([]);
      const { tmuxServer, notRestored } = data?.restartTmuxServer ?? expect.fail();
      const pane = tmuxServer.sessions[0]?.windows[0]?.panes[0]?.pid ?? expect.fail();
      return { pids: [tmuxServer.pid, pane], notRestored };
    }

    const groupOf = async (pid: number) =>
      (await machine.sh(`grep '^0:' /proc/${pid}/cgroup`)).trim();
    const lives = (pids: readonly number[]) =>
      machine.sh(pids.map((pid) => `sed 's/.*) //' /proc/${pid}/stat | cut -d' ' -f20`).join('; '));

    it('starts a server of a member whose service manager is kept as a unit of the member’s own', async () => {
      const { pids, notRestored } = await restarted('alice');
      for (const pid of pids) {
        const group = await groupOf(pid);
        expect(group).toMatch(/^0::\/user\.slice\/user-\d+\.slice\/user@\d+\.service\//);
        expect(group).not.toContain('muxwarden.service');
      }
      expect(notRestored.filter(({ what }) => what === 'unit')).toEqual([]);
      // As of a login, and not of the service's unit.
      const pane = pids[1] ?? 0;
      const bounding = 'sed -n "s/^CapBnd:\\s*//p" /proc/';
      expect(await machine.sh(`${bounding}${pane}/status`)).toBe(
        await machine.sh(`${bounding}self/status`),
      );
      expect(await machine.sh(`readlink /proc/${pane}/ns/mnt`)).toBe(
        await machine.sh('readlink /proc/1/ns/mnt'),
      );
      const files = (of: string) => machine.sh(`grep 'Max open files' /proc/${of}/limits`);
      const manager = await machine.sh('systemctl show -P MainPID "user@$(id -u alice).service"');
      expect(await files(String(pane))).toContain('1024');
      expect((await files(String(pane))).split(/\s{2,}/)[2]).toBe(
        (await files(manager)).split(/\s{2,}/)[2],
      );
    });

    it('says so where a server had to be started in the unit’s own control group', async () => {
      const { pids, notRestored } = await restarted('bob');
      expect(await groupOf(pids[0] ?? 0)).toBe('0::/system.slice/muxwarden.service');
      expect(notRestored).toContainEqual({
        what: 'unit',
        detail: expect.stringContaining('loginctl enable-linger bob'),
      });
      // What one member runs there is to use up nothing of the others', nor of the service.
      expect(
        await machine.sh('systemctl show muxwarden -p TasksMax -p MemoryMax -p OOMPolicy | sort'),
      ).toBe('MemoryMax=infinity\nOOMPolicy=continue\nTasksMax=infinity');
    });

    it('asks no name server anything, so that a dead one costs no call, no start and no act', async () => {
      // A resolver that takes questions, notes them and never answers; and a name that nothing else knows.
      await machine.sh(
        `cat >/run/silent.pl; systemd-run --quiet --unit=silent perl /run/silent.pl
      hostname nowhere-to-be-found
      rm -f /etc/resolv.conf; printf 'nameserver 127.0.0.77\\noptions timeout:1 attempts:1\\n' >/etc/resolv.conf
      sed -i '/^hosts:/d' /etc/nsswitch.conf; echo 'hosts: files dns' >>/etc/nsswitch.conf`,
        {
          input: `use Socket; socket my $s, AF_INET, SOCK_DGRAM, 0; $| = 1;
bind $s, pack_sockaddr_in(53, inet_aton('127.0.0.77')) or die; open my $f, '>>', '/run/questions'; $f->autoflush;
use IO::Handle; while (defined recv $s, my $q, 512, 0) { print $f $q =~ s/[^a-z-]//gr, "\\n" }`,
        },
      );
      const asked = async () =>
        (await machine.sh('cat /run/questions'))
          .split('\n')
          .filter((name) => /nowhere|localhost|muxwarden/.test(name));
      await machine.sh('until test -e /run/questions; do sleep 0.05; done');
      // As everybody's sudo does here, but for the rule of the service.
      await machine.run(['sudo', '-n', '-l'], { user: 'bob' });
      const before = await asked();
      expect(before.join()).toContain('nowhere-to-be-found');
      await machine.sh('systemctl restart muxwarden');
      await connected();
      expect((await restarted('bob')).pids).toHaveLength(2);
      expect((await machine.run(['muxwarden', 'members', 'list'])).exitCode).toBe(0);
      await machine.run(['sudo', '-n', '-u', 'alice', '/bin/true'], { user: 'muxwarden' });
      expect(await asked()).toEqual(before);
    }, 120_000);

    const provision = `mutation ($input: ProvisionMemberInput!) { provisionMember(input: $input) {
      __typename ... on UserError { code message }
      ... on ProvisionMemberPayload { account done removed ended { pid } member { osUser } }
    } }`;

    it('makes an account with a service manager of its own, and deletes it with all that runs there', async () => {
      await machine.sh('muxwarden members add dana');
      const memberId = await eventually(async () => {
        const { data } = await client.query<{ member: { id: string } | null }>(
          '{ member(login: "dana") { id } }',
        );
        return data?.member?.id;
      }, 'dana is a member');
      const provisioned = async (action: string) => {
        const input = { memberId, action, idempotencyKey: `k-${++keys}` };
        const { data } = await client.query<{
          provisionMember: { account: string; removed: string[]; ended: { pid: number }[] };
        }>(provision, { input });
        return data?.provisionMember;
      };
      expect(await provisioned('CREATE')).toMatchObject({
        account: 'mw-dana',
        member: { osUser: 'mw-dana' },
      });
      const uid = await machine.sh('id -u mw-dana');
      const ofDana = `systemctl is-active user@${uid} user-runtime-dir@${uid}; ls /var/lib/systemd/linger /run/user`;
      await machine.sh(`until systemctl is-active --quiet user@${uid}; do sleep 0.1; done`);
      expect(await machine.sh(ofDana)).toMatch(
        new RegExp(`^active\nactive\n[\\s\\S]*\n${uid}\n[\\s\\S]*\nmw-dana$`),
      );
      await machine.sh('tmux -f /dev/null new-session -d -s main', { user: 'mw-dana' });
      const { pids, notRestored } = await restarted('dana');
      for (const pid of pids) expect(await groupOf(pid)).toContain(`/user@${uid}.service/`);
      expect(notRestored.filter(({ what }) => what === 'unit')).toEqual([]);

      const gone = await provisioned('DELETE');
      expect(gone).toMatchObject({ account: 'mw-dana', member: { osUser: null } });
      expect(gone?.ended[0]?.pid).toBe(pids[0]);
      expect(gone?.removed).toEqual(expect.arrayContaining(['the home /home/mw-dana']));
      expect((await machine.run(['ps', '-o', 'args=', '-u', uid])).stdout).toBe('');
      await eventually(
        async () =>
          !new RegExp(`mw-dana|${uid}|^active`, 'm').test(
            (await machine.run(['sh', '-c', ofDana])).stdout,
          ),
        'nothing is kept for the account',
      );
      expect((await machine.run(['getent', 'passwd', 'mw-dana'])).exitCode).toBe(2);
    });

    it('ends no server and no pane when it is restarted, killed or stopped', async () => {
      const pids = [...(await restarted('alice')).pids, ...(await restarted('bob')).pids];
      const before = await lives(pids);
      await machine.sh('systemctl restart muxwarden');
      expect(await lives(pids)).toBe(before);
      await connected();
      await machine.sh('systemctl kill --kill-whom=main -s KILL muxwarden');
      await connected();
      expect(await lives(pids)).toBe(before);
      expect((await serverOf('alice')).pid).toBe(pids[0]);
      expect((await serverOf('bob')).pid).toBe(pids[2]);
      await machine.sh('systemctl stop muxwarden');
      expect(await lives(pids)).toBe(before);
      const left = await machine.sh('ps -o args= -u muxwarden || true');
      expect(left.trim()).toBe('');
    }, 120_000);
  },
);
