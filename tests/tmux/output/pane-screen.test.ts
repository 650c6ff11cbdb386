import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { NotFoundError } from '../../../src/tmux/errors.ts';
import type { PaneRef } from '../../../src/tmux/model.ts';
import { screenText } from '../../../src/tmux/output/pane-screen.ts';
import type { PaneScreenEvent } from '../../../src/tmux/pane-events.ts';
import { attach } from '../../support/somebody.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually } from '../../support/tmux-server.ts';
import { type WatchedTmux, watchTmux } from '../../support/watched-tmux.ts';

/** All screens, collected while they come. */
function watch(lab: WatchedTmux, pane: PaneRef, everyMs: number, signal?: AbortSignal) {
  const events: PaneScreenEvent[] = [];
  const done = (async () => {
    const either = signal ?? new AbortController().signal;
    for await (const event of lab.fleet.screens(pane, everyMs, either)) events.push(event);
  })();
  const text = () => {
    const last = events.at(-1);
    return last?.kind === 'screen' ? Buffer.from(last.screen).toString() : '';
  };
  return { events, done, text };
}

describe.each(presentClasses)('tmux %s', (version) => {
  test('a screen comes first, then each time it changed, with its colours, until the pane is closed', async () => {
    await using lab = await watchTmux({ version });
    const command = `stty -echo; printf '\\033[31mred\\033[m\\n'; read x; echo second; read x`;
    const target = await lab.tmux.run('new-window', '-dPF', '#{pane_id}', '-t', 'main:', command);
    const pane = await lab.pane(target);
    const { events, done, text } = watch(lab, pane, 100);
    await eventually(() => text().includes('\x1b[31mred'), 'the first screen, in red');
    await wait(300);
    const still = events.length;
    await wait(300);
    expect(events.length).toBe(still);
    await lab.tmux.run('send-keys', '-t', target, 'Enter');
    await eventually(() => text().includes('second'), 'the second screen');
    const last = events.at(-1);
    expect(text().split('\n').length - 1).toBe(last?.kind === 'screen' && last.rows);
    await lab.tmux.run('send-keys', '-t', target, 'Enter');
    await done;
    expect(events.at(-1)).toMatchObject({ kind: 'closed', reason: 'EXITED' });
  });

  test('where nothing may be attached screens come as well', async () => {
    await using lab = await watchTmux({ version });
    await using _somebody = await attach(lab.tmux);
    await lab.tmux.run('set-option', '-t', 'main', 'destroy-unattached', 'on');
    const pane = await lab.pane();
    const abort = new AbortController();
    const { done, text } = watch(lab, pane, 100, abort.signal);
    await lab.tmux.run('send-keys', '-t', 'main:', 'echo se""en', 'Enter');
    await eventually(() => text().includes('\nseen'), 'the screen');
    expect(await lab.controlClients()).toBe(1);
    abort.abort();
    await done;
    // Nobody's leaving was ours.
    expect(await lab.tmux.run('list-sessions', '-F', '#{session_name}')).toBe('main');
  });
});

test('twenty watch a busy pane, each at the pace it asked for, by one connection and shared captures', async () => {
  await using lab = await watchTmux();
  await lab.tmux.run(
    'send-keys',
    '-t',
    'main:',
    'while sleep 0.01; do echo $((i=i+1)); done',
    'Enter',
  );
  const pane = await lab.pane();
  const abort = new AbortController();
  const began = performance.now();
  const watchers = Array.from({ length: 20 }, () => watch(lab, pane, 500, abort.signal));
  await wait(2_500);
  await eventually(() => watchers.every(({ events }) => events.length > 2), 'three screens each');
  expect(await lab.controlClients()).toBe(1);
  abort.abort();
  for (const { done } of watchers) await done;
  const halfSeconds = Math.ceil((performance.now() - began) / 500);
  const screens = watchers.flatMap(({ events }) => events);
  const different = new Set(screens.map((event) => event.kind === 'screen' && event.screen));
  // One at once, then one for each half second that began.
  for (const { events } of watchers) expect(events.length).toBeLessThanOrEqual(1 + halfSeconds);
  // Not one capture for each of twenty: a late timer may cost one more now and then.
  expect(different.size).toBeLessThan(screens.length / 4);
});

test('a pane that is not there is refused', async () => {
  await using lab = await watchTmux();
  const pane = await lab.pane();
  const { done } = watch(lab, { ...pane, pane: 999 }, 100);
  await expect(done).rejects.toBeInstanceOf(NotFoundError);
});

test('line drawing is shown as what it draws', () => {
  const rows = ['\x1b[31m\x0elqk\x0f lqk', '\x0ex\x1b[1mx'].map((row) => Buffer.from(row));
  expect(screenText(rows).toString()).toBe('\x1b[31m┌─┐ lqk\n│\x1b[1m│\n');
});
