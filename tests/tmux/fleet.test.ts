import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { StaleGenerationError } from '../../src/tmux/errors.ts';
import type { PaneRef, ServerView } from '../../src/tmux/model.ts';
import { type LocalFleetFixture, localFleet } from '../support/local-fleet.ts';
import { eventually, presentVersions } from '../support/tmux-server.ts';

const quick = { MUXWARDEN_LISTING_INTERVAL_MS: '400' };

describe.each(presentVersions)('a server of tmux %s', (version) => {
  it('is listed whole, with what the process table says of it', async () => {
    await using world = await localFleet();
    const tmux = await world.tmux({ version });
    await tmux.run('split-window', '-d', '-t', 'main', 'exec sleep 1000');
    await tmux.run('new-window', '-d', '-t', 'main:', '-n', 'second', 'exec sleep 1000');
    await tmux.run('new-session', '-d', '-s', 'other', '-x', '91', '-y', '31', 'exec sleep 1000');
    await listed(world);
    expect((await world.read()).status.state).toBe('FRESH');
    const server = world.server();
    expect(server).toMatchObject({
      status: 'RUNNING',
      reason: null,
      pid: await tmux.pid(),
      version,
      binaryDeleted: false,
      attachedClients: 0,
      listing: { state: 'FRESH', reason: null },
    });
    expect(server.startedAt?.getTime()).toBeGreaterThan(Date.now() - 60_000);
    expect(server.tmuxStartTime).toBe(
      Number(await tmux.run('display-message', '-p', '#{start_time}')),
    );
    expect(server.sessions?.map(({ name, windows }) => [name, windows.length])).toEqual([
      ['main', 2],
      ['other', 1],
    ]);
    const panes = (await tmux.run('list-panes', '-a', '-F', '#{pane_id} #{pane_pid} #{pane_width}'))
      .split('\n')
      .sort();
    expect(
      panesOf(server)
        .map(({ pane, pid, columns }) => `%${pane} ${pid} ${columns}`)
        .sort(),
    ).toEqual(panes);
  });

  it('with hostile names is listed right, and nothing of them is executed', async () => {
    await using world = await localFleet();
    const tmux = await world.tmux({ version });
    const hit = join(world.directory, 'hit');
    const odd = join(world.directory, 'two\nlines\tand #(touch hit)');
    await mkdir(odd);
    const names = [`#(touch ${hit})`, `x; touch "${hit}" #`, 'é世🙂|"q"', "it's #{pid} ##"];
    for (const name of names) {
      await tmux.run(
        'new-window',
        '-d',
        '-t',
        'main:',
        '-n',
        name.replaceAll('#', '##'),
        '-c',
        '/',
        'exec sleep 999',
      );
    }
    // Whatever making them did: from here on only we can make it.
    await rm(hit, { force: true });
    await tmux.run('new-session', '-d', '-s', 'odd|名', 'exec sh');
    await tmux.run('select-pane', '-t', 'odd|名', '-T', 'ti"tle;|é');
    await tmux.run('send-keys', '-t', 'odd|名', `cd '${odd}'`, 'Enter');
    await eventually(async () => {
      await world.refresh();
      const pane = panesOf(world.server()).find(({ currentPath }) => currentPath === odd);
      return pane?.title === 'ti"tle;|é' && pane.currentCommand === 'sh';
    }, 'the pane in the odd directory');
    await world.refresh();
    const [main, other] = world.server().sessions ?? [];
    expect(main?.windows.slice(1).map(({ name }) => name)).toEqual(names);
    expect(other?.name).toBe('odd|名');
    expect(world.server().listing).toMatchObject({ state: 'FRESH', reason: null });
    expect(panesOf(world.server())).toHaveLength(6);
    expect(existsSync(hit)).toBe(false);
  });
});

describe('what is there, what is not, and what is left over', () => {
  it('is told apart: no directory and a dead socket are known to be empty', async () => {
    await using world = await localFleet();
    expect(await world.read()).toMatchObject({ status: { state: 'FRESH' }, servers: [] });
    const tmux = await world.tmux();
    await listed(world);
    expect(world.server().status).toBe('RUNNING');
    expect(world.fleet.figures()).toMatchObject({ liveSockets: 1, orphanedSockets: 0 });
    await tmux.run('kill-server').catch(() => {});
    await eventually(async () => {
      await world.refresh();
      return world.server().status === 'ABSENT';
    }, 'the server to be ABSENT');
    expect(world.server()).toMatchObject({ generation: null, pid: null, sessions: [] });
    expect(world.fleet.figures()).toMatchObject({ liveSockets: 0, orphanedSockets: 1 });
  });

  it('is an error of its own for an id of a generation that ended', async () => {
    await using world = await localFleet();
    const first = await world.tmux();
    await listed(world);
    const { ref, generation, sessions } = world.server();
    const pane = sessions?.[0]?.windows[0]?.panes[0]?.pane ?? -1;
    const old: PaneRef = { ...ref, generation: generation ?? '', pane };
    await first.end();
    await world.tmux();
    await listed(world);
    expect(panesOf(world.server()).map((each) => each.pane)).toEqual([pane]);
    const refused = await world.fleet.capture(old, 0).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(StaleGenerationError);
    expect(refused).toMatchObject({ expected: generation, current: world.server().generation });
    expect(world.server().ref).toEqual(ref);
  });

  it('is found again after the socket file was deleted: RUNNING, SOCKET_LOST, with the ids of before', async () => {
    await using world = await localFleet();
    const tmux = await world.tmux();
    await listed(world);
    const { generation } = world.server();
    await rm(tmux.socket);
    await world.refresh();
    expect(world.server()).toMatchObject({ status: 'RUNNING', reason: 'SOCKET_LOST', generation });
    expect(world.server().sessions).toHaveLength(1);
    process.kill(await pidOf(world.server()), 'SIGUSR1');
    await eventually(async () => {
      await world.refresh();
      return world.server().reason === null;
    }, 'the socket to be back');
    expect(world.server()).toMatchObject({ generation, listing: { state: 'FRESH' } });
  });

  it('has two identities for two servers on one path', async () => {
    await using world = await localFleet();
    const first = await world.tmux();
    await listed(world);
    const { generation, ref } = world.server();
    await rm(first.socket);
    await world.tmux();
    const { servers } = await world.refresh();
    expect(servers).toHaveLength(2);
    const taken = servers?.find((server) => server.generation === generation);
    expect(taken).toMatchObject({ ref: { ...ref, generation }, reason: 'PATH_TAKEN' });
    expect(taken?.sessions).toHaveLength(1);
    const present = servers?.find((server) => server.generation !== generation);
    expect(present).toMatchObject({ ref, status: 'RUNNING', listing: { state: 'FRESH' } });
    process.kill(await pidOf(taken), 'SIGKILL');
  });
});

describe('a follower', () => {
  it('gets the state, then synced, then one event for a session made, renamed and killed by hand', async () => {
    await using world = await localFleet({ environment: quick });
    const tmux = await world.tmux({ command: ['exec sleep 1000'] });
    await untilRuns(world, 'sleep');
    const following = world.follow();
    await eventually(() => following.isSynced, 'synced');
    expect(following.changes.map(({ kind }) => kind)).toEqual(['listing', 'synced']);
    const acts = [
      [
        ['new-session', '-d', '-s', 'made', 'exec sh'],
        ['main', 'made'],
      ],
      [
        ['rename-session', '-t', 'made', 'named'],
        ['main', 'named'],
      ],
      [['kill-session', '-t', 'named'], ['main']],
    ] as const;
    for (const [command, names] of acts) {
      const before = following.changes.length;
      await tmux.run(...command);
      await eventually(() => following.changes.length > before, command.join(' '));
      await wait(1_500);
      // A new pane runs a copy of tmux, the shell that reads its command, and that: all are true.
      expect(following.sessionNames.slice(before - 1)[0]).toEqual(names);
      expect(new Set(following.sessionNames.slice(before - 1).map(String)).size).toBe(1);
      expect(following.changes.length - before).toBeLessThanOrEqual(
        command[0] === 'new-session' ? 3 : 2,
      );
    }
  });

  it('hears nothing while nothing changes, and a thousand cost no more requests than one', async () => {
    await using world = await localFleet({ environment: quick });
    const tmux = await world.tmux({ command: ['exec sleep 1000'] });
    await untilRuns(world, 'sleep');
    const followers = Array.from({ length: 1_000 }, () => world.follow());
    await eventually(() => followers.every((following) => following.isSynced), 'all synced');
    const counts = followers.map(({ changes }) => changes.length);
    const { observedAt } = world.server().listing;
    await wait(4_000);
    expect(followers.map(({ changes }) => changes.length)).toEqual(counts);
    expect(world.server().listing.observedAt).not.toEqual(observedAt);
    expect(world.fleet.figures().helperCalls).toBe(1);
    await tmux.run('rename-session', 'changed');
    await eventually(
      () => followers.every(({ sessionNames }) => sessionNames.at(-1)?.[0] === 'changed'),
      'all to hear of it',
    );
  });

  it('is woken by a pane whose title spins once a second at most', async () => {
    await using world = await localFleet({ environment: { MUXWARDEN_LISTING_INTERVAL_MS: '100' } });
    const spin = 'i=0; while :; do i=$((i+1)); printf "\\033]2;%s\\007" $i; sleep 0.05; done';
    await world.tmux({ command: [spin] });
    await untilRuns(world, 'sh');
    const following = world.follow();
    await eventually(() => following.isSynced, 'synced');
    const [before, at] = [following.changes.length, performance.now()];
    await wait(5_000);
    const seconds = (performance.now() - at) / 1_000;
    expect(following.changes.length - before).toBeGreaterThan(2);
    expect(following.changes.length - before).toBeLessThanOrEqual(seconds + 1);
  });

  it('is told of members that come and go', async () => {
    await using world = await localFleet();
    const osUser = userInfo().username;
    const ids = ['alice', 'bob'];
    const abort = new AbortController();
    const kinds: string[] = [];
    const done = (async () => {
      for await (const change of world.fleet.follow(() => ids, abort.signal)) {
        kinds.push(change.kind === 'listing' ? change.listing.memberId : change.kind);
      }
    })();
    await eventually(() => kinds.includes('synced'), 'synced');
    expect(kinds).toEqual(['alice', 'synced']);
    const [alice, bob] = ids.map((memberId) => ({ memberId, osUser }));
    if (alice === undefined || bob === undefined) throw new Error('two ids make two accounts');
    world.fleet.setAccounts([alice, bob]);
    await eventually(() => kinds.includes('bob'), 'bob');
    world.fleet.setAccounts([bob]);
    await eventually(() => kinds.includes('removed'), 'alice to be removed');
    abort.abort();
    await done;
    expect(world.fleet.peek('alice')).toBeUndefined();
  });
});

describe('a fleet', () => {
  it('is another edition when a listing is another one, and when members come or go', async () => {
    await using world = await localFleet();
    const tmux = await world.tmux();
    const editions = [world.fleet.edition()];
    await world.refresh();
    editions.push(world.fleet.edition());
    await tmux.run('rename-session', 'renamed');
    await world.refresh();
    editions.push(world.fleet.edition());
    world.fleet.setAccounts([]);
    editions.push(world.fleet.edition());
    expect(new Set(editions).size).toBe(4);
  });

  it('lists the same when it is started with an empty environment', async () => {
    await using world = await localFleet();
    const tmux = await world.tmux();
    await tmux.run('rename-session', 'é世🙂');
    const script = join(world.directory, 'list.ts');
    const source = (path: string) => JSON.stringify(join(import.meta.dirname, '../../src', path));
    await writeFile(
      script,
      `import { LocalFleet } from ${source('tmux/local-fleet.ts')};
       import { readConfig } from ${source('config.ts')};
       import { userInfo } from 'node:os';
       const directory = ${JSON.stringify(world.directory)};
       const config = readConfig({ HOME: directory, MUXWARDEN_SOCKET_DIRS: directory });
       await using fleet = new LocalFleet({ config });
       await fleet.prepare();
       fleet.setAccounts([{ memberId: 'm', osUser: userInfo().username }]);
       let name;
       for (const end = Date.now() + 20_000; name === undefined && Date.now() < end; )
         name = (await fleet.refresh('m'))?.servers?.[0]?.sessions?.[0]?.name;
       process.stdout.write(JSON.stringify([name, fleet.problems().map((problem) => problem.code)]));`,
    );
    const { stdout } = await execa(process.execPath, [script], {
      extendEnv: false,
      env: {},
      cwd: '/',
    });
    const [name, problems] = JSON.parse(stdout);
    expect(name).toBe('é世🙂');
    expect(problems).not.toContain('TMUX_MISSING');
  });

  it('names what is missing, with the remedy, and says of each member why it is unknown', async () => {
    await using world = await localFleet({
      environment: { MUXWARDEN_HELPER: '/nowhere/helper', MUXWARDEN_TMUX_BIN: '/nowhere/tmux' },
    });
    const listing = await world.read();
    expect(listing).toMatchObject({
      status: { state: 'UNKNOWN', reason: 'HELPER_MISSING' },
      servers: null,
    });
    const problems = new Map(world.fleet.problems().map((problem) => [problem.code, problem]));
    expect(problems.get('HELPER_MISSING')?.remedy).toContain('MUXWARDEN_HELPER');
    expect(problems.get('TMUX_MISSING')?.remedy).toContain('apt-get install tmux');
    expect(problems.has('RUNS_AS_ROOT')).toBe(userInfo().uid === 0);
    expect(world.fleet.figures()).toMatchObject({ installedTmuxVersion: null, tmuxBinary: null });
  });

  it('has nothing to look at for an account without a Linux user, and in local mode for another one', async () => {
    await using world = await localFleet();
    world.fleet.setAccounts([
      { memberId: 'none', osUser: null },
      { memberId: 'other', osUser: 'nobody' },
      { memberId: 'forged', osUser: '-u root' },
    ]);
    expect(await world.fleet.read('none')).toMatchObject({
      status: { state: 'FRESH' },
      servers: [],
    });
    for (const memberId of ['other', 'forged']) {
      expect(await world.fleet.read(memberId)).toMatchObject({
        status: { state: 'UNKNOWN', reason: 'EACCES' },
        servers: null,
      });
    }
    expect(world.fleet.figures().helperCalls).toBe(0);
    expect(await world.fleet.read('alice')).toBeUndefined();
  });
});

/** Once the server is listed: a machine that is busy may not answer the first look in time. */
function listed(world: LocalFleetFixture) {
  return eventually(async () => {
    const { servers } = await world.refresh();
    return servers?.length === 1 && servers[0]?.listing.state === 'FRESH';
  }, 'it is listed');
}

/** Once the process that tmux forked for the only pane has become its program: a change that followers are told. */
function untilRuns(world: LocalFleetFixture, program: string) {
  return eventually(async () => {
    const { servers } = await world.refresh();
    return servers?.[0] !== undefined && panesOf(servers[0])[0]?.currentCommand === program;
  }, `${program} runs`);
}

function panesOf(server: ServerView) {
  return (server.sessions ?? []).flatMap(({ windows }) => windows.flatMap(({ panes }) => panes));
}

async function pidOf(server: ServerView | undefined): Promise<number> {
  if (server?.pid == null) throw new Error('the server has no pid');
  return server.pid;
}
