import { expect, test } from 'vitest';
import { eventually } from '../../support/tmux-server.ts';
import { watchTmux } from '../../support/watched-tmux.ts';

test('a capture of more than 500,000 bytes is refused with the reason, never cut, and the next one works', async () => {
  await using lab = await watchTmux({ columns: 200, rows: 24, command: ['exec sh'] });
  await lab.tmux.run('set-option', '-g', 'history-limit', '5000');
  const wide = 'new-window -t main:9 perl';
  const program = '$| = 1; print "x" x 199, "\\n" for 1 .. 4000; print "the end"; sleep 1000';
  await lab.tmux.run(...wide.split(' '), '-e', program);
  const pane = await lab.pane('main:9');
  await eventually(
    async () => (await lab.fleet.capture(pane, 0)).data.toString().includes('the end'),
    'the end',
  );
  await expect(lab.fleet.capture(pane, 4_000)).rejects.toMatchObject({
    name: 'ListingUnknownError',
    reason: 'OUTPUT_TOO_LARGE',
  });
  const { data } = await lab.fleet.capture(pane, 2_000);
  expect(data.length).toBeGreaterThan(400_000);
  expect(data.toString().split('\n').length).toBeGreaterThan(2_000);
});
