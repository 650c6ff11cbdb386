import { describe, expect, test } from 'vitest';
import type { MemberListing } from '../../../src/tmux/model.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually } from '../../support/tmux-server.ts';
import { type WatchedTmux, watchTmux } from '../../support/watched-tmux.ts';

/** Never within a test: whatever is seen to change was asked for because the bell rang. */
const listingIntervalMs = 3_600_000;

describe.concurrent.each(presentClasses)('while a pane of tmux %s is watched', (version) => {
  test('a window that comes here or is renamed elsewhere is in the listing without waiting for its turn', async () => {
    await using lab = await watchTmux({ version, listingIntervalMs });
    await lab.tmux.run('new-session', '-d', '-s', 'other', 'exec sh');
    await using following = await followed(lab);
    await lab.tmux.run('rename-window', '-t', 'other:', 'elsewhere');
    await following.shows(({ other }) => other.join() === 'elsewhere', 'the new name');
    await lab.tmux.run('new-window', '-t', 'main:', '-n', 'here', 'exec sh');
    await following.shows(({ main }) => main.includes('here'), 'the new window');
  });
});

describe.concurrent.each(presentClasses.filter((version) => version !== '3.1c'))(
  'while a pane of tmux %s is watched',
  (version) => {
    test('what tmux tells nobody of is seen too: a split and another program in another session', async () => {
      await using lab = await watchTmux({ version, listingIntervalMs });
      await lab.tmux.run('new-session', '-d', '-s', 'other', 'exec sh');
      await lab.tmux.run('set-option', '-g', 'automatic-rename', 'off');
      await using following = await followed(lab);
      await lab.tmux.run('split-window', '-d', '-t', 'other:', 'exec sh');
      await following.shows(({ commands }) => commands.length === 3, 'the new pane');
      await lab.tmux.run('respawn-pane', '-k', '-t', 'other:.0', 'exec sleep 1000');
      await following.shows(({ commands }) => commands.includes('sleep'), 'the new program');
    });

    test('one connection hears of the whole server, and another when that one ends', async () => {
      await using lab = await watchTmux({ version, listingIntervalMs, lingerMs: 0 });
      await lab.tmux.run('new-session', '-d', '-s', 'other', 'exec sh');
      await lab.tmux.run('new-session', '-d', '-s', 'third', 'exec sh');
      await using following = await followed(lab);
      const second = lab.watch(await lab.pane('other:'));
      await second.first('snapshot');
      following.stopFirst();
      await eventually(async () => (await lab.controlClients()) === 1, 'the first one is closed');
      await lab.tmux.run('split-window', '-d', '-t', 'third:', 'exec sh');
      await following.shows(({ commands }) => commands.length === 4, 'the new pane');
    });
  },
);

interface Shown {
  /** Names of windows. */
  readonly main: readonly string[];
  readonly other: readonly string[];
  /** Of every pane. */
  readonly commands: readonly (string | null)[];
}

/** Watches a pane of `main` and follows the listing; what is shown came to the follower. */
async function followed(lab: WatchedTmux) {
  const abort = new AbortController();
  let latest: MemberListing | undefined;
  const done = (async () => {
    for await (const change of lab.fleet.follow(() => ['m'], abort.signal)) {
      if (change.kind === 'listing') latest = change.listing;
    }
  })();
  const reading = lab.watch(await lab.pane('main:'));
  await reading.first('snapshot');
  const shown = (): Shown => {
    const sessions = latest?.servers?.[0]?.sessions ?? [];
    const names = (name: string) =>
      sessions.find((each) => each.name === name)?.windows.map((window) => window.name) ?? [];
    const windows = sessions.flatMap((session) => session.windows);
    const commands = windows.flatMap(({ panes }) => panes.map((pane) => pane.currentCommand));
    return { main: names('main'), other: names('other'), commands };
  };
  return {
    stopFirst: () => reading.stop(),
    async shows(is: (shown: Shown) => boolean, what: string) {
      await eventually(() => is(shown()), what, 20_000);
      expect(latest?.status.state).toBe('FRESH');
    },
    async [Symbol.asyncDispose]() {
      abort.abort();
      await done;
    },
  };
}
