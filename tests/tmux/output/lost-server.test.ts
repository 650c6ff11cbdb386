import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { processTable } from '../../support/process-table.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually } from '../../support/tmux-server.ts';
import { watchTmux } from '../../support/watched-tmux.ts';

// tmux#5243: up to 3.7c this very list of commands ends the whole server while a control client is attached.
test.each(presentClasses)(
  'a window of the watched session is selected and the session killed in one list of commands, tmux %s',
  async (version) => {
    await using lab = await watchTmux({ version });
    const { tmux } = lab;
    await tmux.run('new-session', '-d', '-s', 'other', 'exec cat');
    await tmux.run('new-window', '-d', '-t', 'main:', 'exec cat');
    const pid = Number(await tmux.run('display-message', '-p', '#{pid}'));
    const pane = await lab.pane();
    const reading = lab.watch(pane);
    await reading.first('snapshot');
    await tmux
      .run('select-window', '-t', 'main:1', ';', 'kill-session', '-t', '=main')
      .catch(() => undefined);
    const end = await reading.first('closed');
    const isGone = async () => !(await processTable()).some((each) => each.pid === pid);
    const lost = end.reason === 'SERVER_LOST';
    console.log(`select and kill, tmux ${version}: ${end.reason}`);
    if (lost) await eventually(isGone, 'the server is gone');
    else {
      expect(end.reason).toBe('SESSION_KILLED');
      expect(await isGone()).toBe(false);
    }
    expect(reading.kinds.filter((kind) => kind !== 'chunk')).toEqual(['snapshot', 'closed']);
    const [server] = (await lab.fleet.refresh('m'))?.servers ?? [];
    expect(server?.status ?? 'ABSENT').toBe(lost ? 'ABSENT' : 'RUNNING');
    await expect(lab.fleet.capture(pane, 0)).rejects.toMatchObject({
      name: expect.stringMatching(/^(?:StaleGenerationError|NotFoundError)$/),
    });
    // Nobody tries to come back to it.
    const calls = lab.fleet.figures().helperCalls;
    await wait(1_500);
    expect(lab.fleet.figures().helperCalls - calls).toBeLessThan(4);
    expect(lab.outputs.ownClientPids().size).toBe(0);
  },
);
