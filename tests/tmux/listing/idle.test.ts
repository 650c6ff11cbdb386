import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { idleness } from '../../../src/tmux/idle.ts';
import type { AgentView, PaneRef, ServerView } from '../../../src/tmux/model.ts';
import { type LocalFleetFixture, localFleet } from '../../support/local-fleet.ts';
import { longTier } from '../../support/tier.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually, startTmux, type TmuxServer } from '../../support/tmux-server.ts';

/** Real servers, looked at until they are so. Quiet for a second is quiet here. */
const idleAfterMs = 1_000;
const environment = { MUXWARDEN_IDLE_AFTER_MS: String(idleAfterMs) };

interface Watched extends AsyncDisposable {
  readonly fleet: LocalFleetFixture;
  readonly tmux: TmuxServer;
  /** The first look in which it is so. */
  look(wanted: (server: ServerView) => unknown, what: string): Promise<ServerView>;
}

async function watched(version: (typeof presentClasses)[number]): Promise<Watched> {
  const fleet = await localFleet({ environment });
  const tmux = await fleet.tmux({ version });
  return {
    fleet,
    tmux,
    async look(wanted, what) {
      let last: ServerView | undefined;
      return eventually(async () => {
        await fleet.refresh();
        last = fleet.server();
        return wanted(last) ? last : undefined;
      }, what).catch((error: unknown) => {
        throw new Error(`${error}; it was ${JSON.stringify(last && evidence(last))}`);
      });
    },
    [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose](),
  };
}

function evidence(server: ServerView) {
  return idleness(server, server.listing.observedAt ?? new Date(0), idleAfterMs);
}

const pane = (server: ServerView) => server.sessions?.[0]?.windows[0]?.panes[0];
const agent = (server: ServerView): AgentView | null => pane(server)?.agent ?? null;
const seconds = () => Math.floor(Date.now() / 1_000);

const oldestAndNewest = presentClasses.filter(
  (_, index) => longTier || index === 0 || index === presentClasses.length - 1,
);

describe.each(oldestAndNewest)('a pane of a %s server', (version) => {
  it('has an agent by its report, which ends with the program that made it', async () => {
    await using it = await watched(version);
    const script = join(it.fleet.directory, 'my-agent');
    await writeFile(script, '#!/bin/sh\nread x\n');
    await chmod(script, 0o755);
    const report = (text: string) =>
      it.tmux.run('set-option', '-p', '-t', '%0', '@agent_state', text);

    const since = seconds();
    await report(`working:${since}`);
    await it.look((server) => pane(server)?.report?.state === 'WORKING', 'the report is read');
    expect(agent(it.fleet.server())).toBeNull();

    await it.tmux.run('send-keys', '-t', '%0', script, 'Enter');
    await it.look((server) => pane(server)?.foreground?.isShell === false, 'it runs');
    await report(`working:${seconds()}`);
    const working = await it.look(({ workingAgents }) => workingAgents === 1, 'it works');
    expect(agent(working)).toMatchObject({ state: 'WORKING', evidence: 'SELF_REPORT' });
    expect(agent(working)?.since?.getTime()).toBeGreaterThanOrEqual(since * 1_000);
    expect(evidence(working).evidence.join()).toContain('says that it is WORKING');

    // Killed, it leaves its report behind.
    await it.tmux.run('send-keys', '-t', '%0', 'C-c');
    await it.look((server) => agent(server) === null && server.workingAgents === 0, 'it is gone');
    expect(pane(it.fleet.server())?.report).toMatchObject({ state: 'WORKING' });

    // So does one that somebody else's program follows.
    await report(`working:${(it.fleet.server().tmuxStartTime ?? 0) - 2}`);
    await it.tmux.run('send-keys', '-t', '%0', 'sleep 1000', 'Enter');
    const other = await it.look((server) => pane(server)?.currentCommand === 'sleep', 'it sleeps');
    expect(agent(other)).toBeNull();
  });
});

describe.each(presentClasses)('a %s server', (version) => {
  it('is idle at rest, also while we stream; not while a human is attached or a program runs', async () => {
    await using it = await watched(version);
    const idle = await it.look((server) => server.idle, 'it is idle');
    expect(idle).toMatchObject({ attachedClients: 0, workingAgents: 0 });
    expect(evidence(idle).evidence).toContain('1 pane is at a shell prompt');

    // Our control client is attached, and is nobody; what is streamed was not written by it.
    const ref: PaneRef = { ...idle.ref, generation: idle.generation ?? '', pane: 0 };
    const leave = new AbortController();
    const events = it.fleet.fleet.output(ref, undefined, leave.signal)[Symbol.asyncIterator]();
    expect(await events.next()).toMatchObject({ value: { source: 'CONTROL_CLIENT' } });
    expect(await it.tmux.run('list-clients', '-F', '#{client_control_mode}')).toBe('1');
    const streamed = await it.look((server) => server.idle, 'it is idle all the same');
    expect(streamed).toMatchObject({ attachedClients: 0, activity: idle.activity });
    expect(await it.tmux.run('list-clients', '-F', '#{client_control_mode}')).toBe('1');
    leave.abort();
    await events.return?.();

    const human = `exec ${it.tmux.binary} -u -S ${it.tmux.socket} attach`;
    await using _terminal = await startTmux({ version, command: [`unset TMUX; ${human}`] });
    const attached = await it.look(({ attachedClients }) => attachedClients === 1, 'he is there');
    expect(attached.idle).toBe(false);
    expect(evidence(attached).evidence).toContain('a client is attached to session $0');
    const [client = ''] = (await it.tmux.run('list-clients', '-F', '#{client_tty}'))
      .split('\n')
      .filter((tty) => tty !== '');
    await it.tmux.run('detach-client', '-t', client);
    await it.look(({ attachedClients }) => attachedClients === 0, 'he is gone');

    await it.tmux.run('send-keys', '-t', '%0', 'exec sleep 1000', 'Enter');
    // What tmux says of a pane and what the process table does are looked at one after the other.
    const busy = await it.look(
      (server) => evidence(server).evidence.includes('%0: sleep runs in the foreground'),
      'it sleeps',
    );
    expect(busy.idle).toBe(false);
  });

  if (longTier) {
    it('is idle when its agent says so for a minute, and not a second before', async () => {
      await using it = await watched(version);
      const command = `exec bash -c 'exec -a claude sleep 1000'`;
      await it.tmux.run('respawn-pane', '-k', '-t', '%0', command);
      const since = seconds();
      await it.tmux.run('set-option', '-p', '-t', '%0', '@agent_state', `idle:${since}`);
      let wasBusy = false;
      const idle = await eventually(
        async () => {
          await it.fleet.refresh();
          const server = it.fleet.server();
          wasBusy ||= server.idle === false && agent(server)?.state === 'IDLE';
          return server.idle ? server : undefined;
        },
        'it is idle',
        90_000,
      );
      expect(wasBusy).toBe(true);
      expect(idle.listing.observedAt?.getTime()).toBeGreaterThanOrEqual((since + 60) * 1_000);
    }, 120_000);
  }
});
