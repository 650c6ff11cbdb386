import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { waitedForCoreMs } from '../../support/core-wait.ts';
import { localFleet } from '../../support/local-fleet.ts';
import { longTier, rounds } from '../../support/tier.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually } from '../../support/tmux-server.ts';
import { Reading } from '../../support/watched-tmux.ts';

const seconds = rounds(3, 65);
const classes = longTier
  ? presentClasses
  : presentClasses.filter((_, at, all) => at % (all.length - 1) === 0);
console.log(`renames without end: ${seconds} s`);

describe.each(classes)('panes of tmux %s that rename their windows without end', (version) => {
  test('get their member asked once a second and 12 times a minute, and slow nobody', async () => {
    await using world = await localFleet({
      memberIds: ['alice', 'bob'],
      environment: { MUXWARDEN_LISTING_INTERVAL_MS: '3600000' },
    });
    const tmux = await world.tmux({ version });
    await tmux.run('set-option', '-g', 'allow-rename', 'on');
    await tmux.run('new-session', '-d', '-s', 'other', 'exec sh');
    await world.fleet.read('bob');
    const { generation, sessions, ref } = (await world.refresh()).servers?.[0] ?? {};
    const pane = sessions?.[0]?.windows[0]?.panes[0]?.pane;
    if (!generation || pane === undefined || !ref) throw new Error('no pane');
    const watched = { memberId: world.memberId, pathHex: ref.pathHex, generation, pane };
    const reading = new Reading((signal) => world.fleet.output(watched, undefined, signal));
    await reading.first('snapshot');
    await using following = world.follow();
    await eventually(() => following.isSynced, 'the follower has everything');

    const program = `perl -e '$| = 1; for (;;) { $n++; print "\\ek$n\\e\\\\" }'`;
    for (const target of ['main:', 'other:'])
      await tmux.run('respawn-pane', '-k', '-t', target, program);
    const name = async () =>
      Number(await tmux.run('display-message', '-p', '-t', 'other:', '#{window_name}'));
    const from = await name();
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    const began = performance.now();
    const looks = new Set<number>();
    let slowest = 0;
    while (performance.now() - began < seconds * 1_000) {
      const waited = await waitedForCoreMs('self');
      const at = performance.now();
      expect((await world.fleet.read('bob'))?.status.state).toBe('FRESH');
      const took = performance.now() - at;
      slowest = Math.max(slowest, took - ((await waitedForCoreMs('self')) - waited));
      const seen = world.fleet.peek(world.memberId)?.status.observedAt;
      looks.add(seen?.getTime() ?? 0);
      await wait(10);
    }
    delay.disable();
    const passed = (performance.now() - began) / 1_000;
    const renames = ((await name()) - from) / passed;
    console.log(
      `tmux ${version}: ${Math.round(renames)} renames/s, ${looks.size} looks in ${passed.toFixed(1)} s, event loop held ${(delay.max / 1e6).toFixed(0)} ms at most`,
    );
    // The look of before the flood is among them.
    expect(looks.size - 1).toBeLessThanOrEqual(Math.min(passed + 1, 12 * Math.ceil(passed / 60)));
    expect(looks.size - 1).toBeGreaterThan(1);
    expect(slowest).toBeLessThan(100);
    expect(delay.max / 1e6).toBeLessThan(500);
    reading.stop();
    await reading.done;
  });
});
