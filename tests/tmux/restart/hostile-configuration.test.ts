import { rm, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NotRestored, RestartServerRequest } from '../../../src/tmux/acts.ts';
import { prepareRestartServer } from '../../../src/tmux/restart/restart-server.ts';
import { actingMember, installedVersion, restartRequest } from '../../support/acting-member.ts';
import { lacks } from '../../support/needs.ts';
import { processTable } from '../../support/process-table.ts';
import { longTier } from '../../support/tier.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { startTicks, type Version } from '../../support/tmux-server.ts';
import { Member } from '../member-helper/member.ts';

/**
 * What a member may have in a configuration, and whether a server can be made with it. Whatever it
 * is: the old sessions are back, in one server, and the member's other server has not noticed.
 */
const configurations: readonly (readonly [what: string, lines: readonly string[]])[] = [
  ['a command that sleeps', ["run-shell 'sleep 100'"]],
  ['a command that prints for ever', ["run-shell 'yes'"]],
  ['itself', ['source-file ~/.tmux.conf']],
  ['kill-server', ['kill-server']],
  ['a command without its words', ['set', 'bind', 'set-hook']],
  [
    'aliases on what we ask',
    ['list-panes', 'list-sessions', 'display-message', 'new-session', 'set-option'].map(
      (name, at) => `set -s command-alias[${at}] ${name}=kill-server`,
    ),
  ],
  [
    'aliases on how we clean up',
    ['show-options', 'show-environment', 'set-environment'].map(
      (name, at) => `set -s command-alias[${at}] ${name}=list-keys`,
    ),
  ],
  [
    'options that end what nobody is attached to',
    [
      'set -s exit-empty on',
      'set -s exit-unattached on',
      'set -g destroy-unattached on',
      'set -g detach-on-destroy off',
    ],
  ],
  [
    'programs that end at once',
    ['set -g default-command "exit 3"', 'set -g default-shell /bin/false'],
  ],
  [
    'hooks that kill on what we do',
    [
      ...['session-created', 'window-linked', 'after-new-window', 'after-set-option'],
      ...['after-list-panes', 'after-new-session', 'after-split-window', 'after-display-message'],
    ].map((name) => `set-hook -g ${name} kill-server`),
  ],
];

const oldest = presentClasses[0] ?? '3.1c';
const newest = presentClasses.at(-1) ?? '3.8';
/** Each of them on the oldest or on the newest tmux; in the long tier on one of every class. */
const cases = configurations.flatMap(([what, lines], at) =>
  (longTier ? presentClasses : [at % 2 === 0 ? newest : oldest]).map(
    (version) => [what, version, lines] as const,
  ),
);

describe.skipIf(lacks('root', 'setpriv'))('a restart beside a configuration', () => {
  let alice: Member;
  beforeAll(async () => {
    alice = await Member.ordinary();
  });
  afterAll(() => alice[Symbol.asyncDispose]());

  async function restarted(
    version: Version,
    lines: readonly string[],
    more: Partial<RestartServerRequest> = {},
  ) {
    await rm(`${alice.directory}/.tmux.conf`, { force: true });
    await using server = await alice.server(version, 'main');
    await using other = await alice.server(version, 'other');
    await server.tmux('new-session', '-d', '-s', 'second', 'exec sh');
    await server.tmux('split-window', '-d', '-t', 'second', 'exec sh');
    await using member = actingMember({
      directory: alice.directory,
      installed: installedVersion(version),
      helper: await alice.helper(),
    });
    await writeFile(`${alice.directory}/.tmux.conf`, `${lines.join('\n')}\n`);
    using act = await prepareRestartServer(
      member.tmux,
      restartRequest(await member.server(server.socket), more),
    );
    const result = await act.run();
    const now = await member.server(server.socket);
    const there = (await processTable()).filter(({ words }) => words.includes(server.socket));
    for (const { pid } of there) await alice.note(pid);
    try {
      expect(await startTicks(server.pid)).toBeUndefined();
      expect(await startTicks(other.pid)).toBe(other.ticks);
      expect(await member.server(other.socket)).toMatchObject({
        status: 'RUNNING',
        listing: { state: 'FRESH' },
      });
      // Those of its panes and jobs are no clients; there is one server.
      const servers = there.filter(({ words }) => words.includes('start-server'));
      expect(servers.map(({ pid }) => pid)).toEqual([now.pid]);
      return { result, now, keys: await server.tmux('list-keys') };
    } finally {
      for (const { pid } of there) {
        if (await startTicks(pid)) process.kill(pid, 'SIGKILL');
      }
    }
  }
  const without = (notRestored: readonly NotRestored[]) =>
    notRestored.find(({ what }) => what === 'configuration')?.detail;

  it.each(cases)('with %s gives the sessions back in one tmux %s', async (_, version, lines) => {
    const { result, now } = await restarted(version, lines);
    const shape = now.sessions?.map(({ name, windows }) => [name, windows[0]?.panes.length]);
    expect([shape, result.notRestored]).toEqual([
      [
        ['main', 1],
        ['second', 2],
      ],
      expect.anything(),
    ]);
    expect(result.after).toMatchObject({ status: 'RUNNING', version, sessionCount: 2 });
    const other = result.notRestored.filter(({ what }) => !/^(?:configuration|screen)$/.test(what));
    expect(other).toEqual([]);
  });

  it('without a restore begins a session all the same, and says what was left out', async () => {
    const { result } = await restarted(newest, ["run-shell 'sleep 100'"], { restore: 'NONE' });
    expect(result.after).toMatchObject({ status: 'RUNNING', sessionCount: 1 });
    expect(without(result.notRestored)).toBe('left out, for otherwise: tmux did not start in time');
  });

  it('with one that works keeps its key bindings and leaves nothing out', async () => {
    const { result, keys } = await restarted(oldest, ['bind X kill-pane', 'set -g status off']);
    expect(keys).toMatch(/prefix +X +kill-pane/);
    expect(without(result.notRestored)).toBeUndefined();
  });
});
