import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { serverWords } from '../../../src/tmux/member-helper.ts';
import { prepareRestartPane } from '../../../src/tmux/restart/restart-pane.ts';
import { prepareRestartServer } from '../../../src/tmux/restart/restart-server.ts';
import {
  actingMember,
  helperPath,
  installedVersion,
  paneRef,
  restartRequest,
} from '../../support/acting-member.ts';
import { rounds } from '../../support/tier.ts';
import { presentVersions, startTmux, type Version } from '../../support/tmux-server.ts';

/**
 * Three checks stand between an old id and a new pane: the listing's generation, the process that
 * the helper finds at the socket, and the guard inside tmux. Here acts come late on purpose, past
 * the first, and are let through by copies of the helper that lack one or more of the others: what
 * the real one leaves alone, those must hit, or this test would show nothing.
 */
const life = `my $life = "#{==:#{pid}/#{start_time},$r->{pid}/$r->{start}}";`;
const samePane = `my $same = $r->{panepid} ? "#{==:#{pane_pid},$r->{panepid}}" : '#{==:#{pane_dead},1}';`;
const sameProcess = `ne "@$r{qw(pid ticks)}";`;

const helpers = {
  'the helper': [],
  'a helper that compares no life inside tmux': [[life, 'my $life = "1";']],
  'a helper that compares no process of the pane': [[samePane, 'my $same = "1";']],
  'a helper that compares nothing': [
    [life, 'my $life = "1";'],
    [samePane, 'my $same = "1";'],
    [sameProcess, 'eq "never";'],
  ],
} as const;

type Scenario = 'another start time' | 'another process in the pane' | 'another life';
const hits: Readonly<Record<keyof typeof helpers, readonly Scenario[]>> = {
  'the helper': [],
  'a helper that compares no life inside tmux': ['another start time'],
  'a helper that compares no process of the pane': ['another process in the pane'],
  'a helper that compares nothing': [
    'another start time',
    'another process in the pane',
    'another life',
  ],
};
const scenarios: readonly Scenario[] = [
  'another start time',
  'another process in the pane',
  'another life',
];

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mw-'));
  const source = await readFile(helperPath, 'utf8');
  for (const [name, edits] of Object.entries(helpers)) {
    let text = source;
    for (const [from, to] of edits) {
      expect(text.split(from), `${from} stands there once`).toHaveLength(2);
      text = text.replace(from, () => to);
    }
    await writeFile(join(folder, name), text);
    await chmod(join(folder, name), 0o755);
  }
});
afterAll(() => rm(folder, { recursive: true }));

/** Does the act of a scenario; true when a pane that was not meant got a new program. */
async function reachesAnother(version: Version, helper: string, scenario: Scenario) {
  await using server = await startTmux({ version, command: ['exec sleep 4000'] });
  await using member = actingMember({
    directory: server.directory,
    installed: installedVersion(version),
    helper: join(folder, helper),
  });
  const view = await member.server(server.socket);
  const pane = paneRef(view);
  if (scenario === 'another life') {
    // Prepared in time and run too late: the old server is gone, a new one has handed out %0 again.
    using act = await prepareRestartPane(member.tmux, { pane, operationId: 'x' });
    await server.end();
    await using next = await startTmux({
      version,
      directory: server.directory,
      command: ['exec sleep 4000'],
    });
    const before = await next.run('display-message', '-p', '-t', '%0', '#{pane_pid}');
    await act.run().catch(() => undefined);
    return (await next.run('display-message', '-p', '-t', '%0', '#{pane_pid}')) !== before;
  }
  const panePid = async () =>
    Number(await server.run('display-message', '-p', '-t', '%0', '#{pane_pid}'));
  const before = await panePid();
  const target = member.tmux.target(view);
  const start = target.tmuxStartTime - (scenario === 'another start time' ? 1 : 0);
  const panepid = before + (scenario === 'another process in the pane' ? 1 : 0);
  await member.tmux.helper.act(
    `respawn-pane ${serverWords({ ...target, tmuxStartTime: start })} pane=0 panepid=${panepid} dir=2f`,
  );
  return (await panePid()) !== before;
}

describe.concurrent.each(presentVersions)(
  'an act on a pane of tmux %s that comes too late',
  (version) => {
    it.each(Object.keys(hits) as (keyof typeof hits)[])('by %s', async (helper) => {
      const reached = [];
      for (const scenario of scenarios) {
        if (await reachesAnother(version, helper, scenario)) reached.push(scenario);
      }
      expect(reached).toEqual(hits[helper]);
    });
  },
);

describe('a restart of a pane that races one of its server', () => {
  it('reaches the old life or nothing', { timeout: 600_000 }, async () => {
    const count = rounds(10, 100);
    console.log(`races: ${count} rounds`);
    const version: Version = '3.3a';
    const seen = { stale: 0, done: 0 };
    for (let round = 0; round < count; round += 1) {
      await using server = await startTmux({ version, command: ['exec sleep 4000'] });
      await using member = actingMember({
        directory: server.directory,
        installed: installedVersion(version),
      });
      const view = await member.server(server.socket);
      const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
      const restartServer = async () => {
        await later((count / 2 - round) * 20);
        using act = await prepareRestartServer(member.tmux, restartRequest(view));
        return await act.run();
      };
      const restartPane = async () => {
        await later((round - count / 2) * 20);
        using act = await prepareRestartPane(member.tmux, {
          pane: paneRef(view),
          operationId: 'x',
        });
        return await act.run();
      };
      const [whole, pane] = await Promise.allSettled([restartServer(), restartPane()]);
      if (whole.status === 'rejected') throw whole.reason;
      const made = whole.value.server.sessions?.[0]?.windows[0]?.panes[0]?.pid;
      expect(await server.run('list-panes', '-a', '-F', '#{pane_pid}')).toBe(String(made));
      if (pane.status === 'fulfilled') {
        seen.done += 1;
        expect(pane.value.after.generation).toBe(view.generation);
      } else {
        seen.stale += 1;
        expect(pane.reason).toMatchObject({ name: 'StaleGenerationError' });
      }
    }
    expect(seen.stale + seen.done).toBe(count);
    console.log(`races: ${seen.done} reached the old life, ${seen.stale} were refused`);
  });
});
