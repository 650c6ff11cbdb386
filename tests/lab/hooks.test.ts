import { chmod, readFile } from 'node:fs/promises';
import { connect as connectTo, type Socket } from 'node:net';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { eventually, type TmuxServer } from '../support/tmux-server.ts';
import { rootOf, type User } from './accounts.ts';
import { type Lab, startLab } from './lab.ts';
import { addMembers, lookAtMembers, refresh } from './members-page.ts';
import type { Service } from './service.ts';

/** What members' own tools report, each on the socket that is the member's alone. */

const page = await readFile(join(import.meta.dirname, '../../docs/hooks.md'), 'utf8');
const block = (language: string) =>
  new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``).exec(page)?.[1] ?? '';

interface AgentSeen {
  readonly kind: string;
  readonly state: string;
  readonly evidence: string;
  readonly since: string | null;
}

describe.skipIf(lacks('root', 'sudo', 'visudo', 'tmux', 'curl'))('a report of a hook', () => {
  let lab: Lab;
  let service: Service;
  let tmux: TmuxServer;
  let bobs: TmuxServer;
  let hooks: string;

  beforeAll(async () => {
    lab = await startLab();
    hooks = `${rootOf(lab.id)}/hooks`;
    await execa('install', ['-d', '-m', '0711', hooks]);
    for (const { name } of [lab.users.alice, lab.users.bob]) {
      const owners = ['-o', lab.users.service.name, '-g', name];
      await execa('install', ['-d', '-m', '2710', ...owners, join(hooks, name)]);
    }
    const command = ['exec sleep 1000'];
    tmux = await lab.startTmuxAs(lab.users.alice, { version: '3.5a', command });
    bobs = await lab.startTmuxAs(lab.users.bob, { version: '3.5a', command });
    service = await lab.startService({
      environment: {
        MUXWARDEN_HOOKS_DIR: hooks,
        MUXWARDEN_LISTING_INTERVAL_MS: '300',
        MUXWARDEN_LISTING_FRESH_GRACE_MS: '300',
        MUXWARDEN_LISTING_MAX_AGE_MS: '800',
        MUXWARDEN_LISTING_BACK_OFF_MS: '300',
        MUXWARDEN_LISTING_BACK_OFF_MAX_MS: '600',
      },
    });
    await addMembers(lab, service, ['alice', 'bob']);
    for (const user of [lab.users.alice, lab.users.bob])
      await eventually(async () => {
        const tried = await post(user, '/state/none', 'x');
        return tried.status === 404 || undefined;
      }, 'the sockets are there');
  }, 120_000);
  afterAll(() => lab?.[Symbol.asyncDispose]());

  const socketOf = (user: User) => join(hooks, user.name, 'socket');
  const idOf = async (login: string) =>
    (await lookAtMembers(service)).members.get(login)?.id ?? expect.fail(login);
  const claimOf = async (server: TmuxServer, pane = '%0') =>
    `${server.socket},${await server.pid()},0 ${pane}`;

  async function post(user: User, target: string, body: string, socket = socketOf(user)) {
    const url = `http://mw${target}`;
    const words = ['-s', '-m', '8', '-w', '\n%{http_code}', '--unix-socket', socket, url];
    const { stdout, exitCode } = await lab.runAs(user, ['curl', ...words, '-d', body]);
    const lines = stdout.trim().split('\n');
    return { status: Number(lines.at(-1)), text: lines.slice(0, -1).join('\n'), exitCode };
  }

  async function agent(login: string, paneId: string): Promise<AgentSeen | null> {
    const { data } = await service.query<{
      panes: { nodes: { tmuxId: string; agent: AgentSeen | null }[] };
    }>(
      'query ($id: ID!) { panes(first: 50, filter: { memberIds: [$id] }) { nodes { tmuxId agent { kind state evidence since } } } }',
      { id: await idOf(login) },
    );
    return data?.panes.nodes.find(({ tmuxId }) => tmuxId === paneId)?.agent ?? null;
  }

  it('is made as the documentation says, by the hooks of Claude Code and of Codex', async () => {
    const claude = JSON.parse(block('json')) as {
      hooks: Record<string, { hooks: { command: string }[] }[]>;
    };
    const commands: [string, string, readonly string[]][] = Object.entries(claude.hooks).map(
      ([event, [each]]) => [event, each?.hooks[0]?.command ?? '', []],
    );
    const [, ...words] = JSON.parse(/notify = (\[.*\])/.exec(block('toml'))?.[1] ?? '[]');
    commands.push(['notify', words[1], ['{"type":"agent-turn-complete"}']]);
    commands.push(['plain', block('sh').trim(), []]);
    const expected: Record<string, string> = {
      ...{ UserPromptSubmit: 'WORKING', Notification: 'WAITING', Stop: 'IDLE' },
      ...{ notify: 'IDLE', plain: 'WORKING' },
    };
    const { alice } = lab.users;
    const [TMUX, TMUX_PANE] = (await claimOf(tmux)).split(' ') as [string, string];
    for (const [event, command, more] of commands) {
      const here = command.replaceAll('/var/lib/muxwarden-hooks', hooks);
      const told = await lab.runAs(alice, ['sh', '-c', here, ...more], {
        input: '{"session_id":"x"}',
        environment: { TMUX, TMUX_PANE },
      });
      expect([event, told.exitCode, told.stderr]).toEqual([event, 0, '']);
      expect([event, await agent('alice', '%0')]).toEqual([
        event,
        expect.objectContaining({ kind: 'sleep', state: expected[event], evidence: 'HOOK' }),
      ]);
    }
    const since = Date.parse((await agent('alice', '%0'))?.since ?? '');
    expect(Math.abs(Date.now() - since)).toBeLessThan(30_000);
    await post(alice, '/state/working', await claimOf(tmux));
    expect(Date.parse((await agent('alice', '%0'))?.since ?? '')).toBe(since);
  });

  it('of another user is refused: by the folder, and by the kernel’s word where that stands open', async () => {
    const { alice, bob } = lab.users;
    const claim = await claimOf(tmux);
    expect((await post(bob, '/state/idle', claim, socketOf(alice))).exitCode).toBe(7);
    await chmod(join(hooks, alice.name), 0o2711);
    await chmod(socketOf(alice), 0o666);
    expect(await post(bob, '/state/idle', claim, socketOf(alice))).toMatchObject({ status: 403 });
    expect(await post(bob, '/token', claim, socketOf(alice))).toMatchObject({ status: 403 });
    await chmod(join(hooks, alice.name), 0o2710);
    await chmod(socketOf(alice), 0o660);
    // On his own socket he has no pane of hers.
    expect(await post(bob, '/state/idle', claim)).toMatchObject({ status: 404 });
    expect((await agent('alice', '%0'))?.state).toBe('WORKING');
    expect(await agent('bob', '%0')).toBeNull();
  });

  it('by a token is for one member, one pane and one life of its server, and bears UNKNOWN', async () => {
    const { alice, bob } = lab.users;
    const pane = await tmux.run('split-window', '-P', '-F', '#{pane_id}', 'exec sleep 999');
    const { status, text: token } = await post(alice, '/token', await claimOf(tmux, pane));
    expect([status, token]).toEqual([200, expect.stringMatching(/^mwp_/)]);
    expect(await post(alice, '/state/waiting', token)).toMatchObject({ status: 200 });
    expect((await agent('alice', pane))?.state).toBe('WAITING');
    expect(await post(bob, '/state/idle', token)).toMatchObject({ status: 403 });
    for (const forged of [
      token.slice(0, -1),
      `${token}A`,
      token.replace(/\..*/, `.${'A'.repeat(43)}`),
    ])
      expect(await post(alice, '/state/idle', forged)).toMatchObject({
        status: expect.not.stringMatching('200'),
      });

    const folder = `/tmp/tmux-${alice.uid}`;
    await chmod(folder, 0);
    await eventually(async () => {
      const seen = await refresh(service, await idOf('alice'));
      return seen.listing.state === 'UNKNOWN' || undefined;
    }, 'nothing is known of alice');
    expect(await post(alice, '/state/idle', token)).toMatchObject({ status: 200 });
    expect(
      await post(alice, '/state/idle', await claimOf(tmux, '%0').catch(() => 'x')),
    ).not.toMatchObject({ status: 200 });
    await chmod(folder, 0o700);
    await eventually(async () => {
      await refresh(service, await idOf('alice'));
      return (await agent('alice', pane))?.state === 'IDLE' || undefined;
    }, 'what was told meanwhile is shown');

    await tmux.run('kill-pane', '-t', pane);
    await refresh(service, await idOf('alice'));
    expect(await post(alice, '/state/working', token)).toMatchObject({ status: 403 });

    const { text: ofBob } = await post(bob, '/token', await claimOf(bobs));
    process.kill(await bobs.pid(), 'SIGKILL');
    const next = await eventually(
      () =>
        lab
          .startTmuxAs(bob, { version: '3.5a', command: ['exec sleep 1000'] })
          .catch(() => undefined),
      'bob’s next server',
    );
    await eventually(async () => {
      const pid = await next.pid();
      const seen = await refresh(service, await idOf('bob'));
      return seen.tmuxServers?.some((server) => server.pid === pid && server.sessions) || undefined;
    }, 'it is listed');
    expect(await next.run('display-message', '-p', '#{pane_id}')).toBe('%0');
    expect(await post(bob, '/state/working', ofBob)).toMatchObject({ status: 403 });
    expect(await agent('bob', '%0')).toBeNull();
  });

  it('ends when the pane is back at its shell', async () => {
    const { alice } = lab.users;
    const pane = await tmux.run('new-window', '-P', '-F', '#{pane_id}');
    await tmux.run('send-keys', '-t', pane, 'sleep 998', 'Enter');
    await eventually(async () => {
      const { status } = await post(alice, '/state/working', await claimOf(tmux, pane));
      return status === 200 || undefined;
    }, 'the pane is known');
    await eventually(async () => {
      await refresh(service, await idOf('alice'));
      await post(alice, '/state/working', await claimOf(tmux, pane));
      return (await agent('alice', pane))?.state === 'WORKING' || undefined;
    }, 'the agent is seen');
    await tmux.run('send-keys', '-t', pane, 'C-c');
    await eventually(async () => {
      await refresh(service, await idOf('alice'));
      return (await agent('alice', pane)) === null || undefined;
    }, 'the agent is gone');
  });

  it('has bounds in size, number and rate, which are the member’s own', async () => {
    const { alice, bob } = lab.users;
    const open = (socket: string) =>
      new Promise<Socket>((resolve) => {
        const each = connectTo(socket, () => resolve(each));
        // Its queue may be full.
        each.on('error', () => resolve(each));
      });
    expect(await post(alice, '/state/idle', 'x'.repeat(1_025))).toMatchObject({ status: 413 });
    for (const bad of ['', '%0', 'a,b,c %0', '/x,1,0 %0;x', `${tmux.socket},1,0`])
      expect([bad, (await post(alice, '/state/idle', bad)).status]).toEqual([bad, 400]);
    expect(await post(alice, '/state/busy', await claimOf(tmux))).toMatchObject({ status: 404 });
    // As fast as it can be: a machine that is busy gets to the rate as well.
    const hurry = `use IO::Socket::UNIX; my %seen;
      for (1 .. 40) {
        my @open = map { IO::Socket::UNIX->new("${socketOf(alice)}") // () } 1 .. 10;
        for (@open) { print $_ "POST /state/none HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\nx"; $_->flush }
        for (@open) { $seen{$1}++ if (readline($_) // "") =~ / (\\d{3}) / }
        last if $seen{429};
      }
      print join " ", sort keys %seen;`;
    const hurried = await lab.runAs(alice, ['perl', '-e', hurry]);
    expect(hurried.stdout.split(' ')).toEqual(['404', '429']);
    // Root's own connections are another uid's, and cost alice nothing for longer than it takes to say so.
    const held = await Promise.all(Array.from({ length: 30 }, () => open(socketOf(alice))));
    for (const each of held) each.destroy();
    expect(await post(bob, '/state/none', 'x')).toMatchObject({ status: 404 });
    const hanging = lab.runAs(alice, [
      'perl',
      '-MIO::Socket::UNIX',
      '-e',
      `my @s = map { IO::Socket::UNIX->new('${socketOf(alice)}') } 1 .. 16; $| = 1; print "open\\n"; sleep 2`,
    ]);
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(await post(bob, '/state/none', 'x')).toMatchObject({ status: 404 });
    await hanging;
    await eventually(
      async () => (await post(alice, '/state/none', 'x')).status === 404 || undefined,
      'alice’s is free again',
    );
  });
});
