import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { attach } from '../../support/somebody.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually } from '../../support/tmux-server.ts';
import { watchTmux } from '../../support/watched-tmux.ts';

/** The statements of docs/observing.md, each by its words there. */
describe.concurrent.each(presentClasses)('tmux %s', (version) => {
  test('tmux counts a client, runs the hooks, and all is as before when nobody watches', async () => {
    await using lab = await watchTmux({ version, lingerMs: 200, columns: 97, rows: 31 });
    const { tmux } = lab;
    const log = join(tmux.directory, 'hooks');
    const hooks = ['client-attached', 'client-detached', 'client-session-changed'];
    for (const hook of hooks)
      await tmux.run('set-hook', '-g', hook, `run-shell "echo ${hook} >> ${log}"`);
    const pane = await lab.pane();
    const attached = () => tmux.run('display-message', '-p', '-t', 'main:', '#{session_attached}');
    const rest = () =>
      tmux.run(
        ...['display-message', '-p', '-t', 'main:'],
        '#{window_width}x#{window_height} #{pane_width}x#{pane_height} #{window_panes} #{pane_in_mode} #{window_index} #{history_size} #{pane_title}',
      );
    const options = () => tmux.run('show-options', '-t', 'main');
    const before = [await rest(), await options()];
    const reading = lab.watch(pane);
    await reading.first('snapshot');
    expect(await attached()).toBe('1');
    expect(await tmux.run('list-clients', '-F', '#{client_control_mode} #{client_tty}')).toBe('1 ');
    expect([await rest(), await options()]).toEqual(before);
    reading.stop();
    await eventually(async () => (await attached()) === '0', 'nobody is attached');
    expect([await rest(), await options()]).toEqual(before);
    const ran = async () => (await readFile(log, 'utf8').catch(() => '')).split('\n');
    for (const hook of hooks)
      await eventually(async () => (await ran()).includes(hook), `the hook ${hook} ran`);
  });

  test('options that end what nobody is attached to, set while we watch, end nothing of somebody else', async () => {
    await using lab = await watchTmux({ version, lingerMs: 200 });
    const { tmux } = lab;
    const reading = lab.watch(await lab.pane());
    await reading.first('snapshot');
    await using _somebody = await attach(tmux);
    await eventually(async () => (await lab.controlClients()) === 2, 'both are attached');
    await tmux.run('set-option', '-g', 'destroy-unattached', 'on');
    await tmux.run('set-option', '-s', 'exit-unattached', 'on');
    reading.stop();
    await eventually(async () => (await lab.controlClients()) === 1, 'we are gone');
    await wait(300);
    expect(await tmux.run('list-sessions', '-F', '#{session_name}')).toBe('main');
  });
});
