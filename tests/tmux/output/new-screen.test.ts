import { expect, test } from 'vitest';
import { systemClock } from '../../../src/concurrency/clock.ts';
import type { MemberTmux } from '../../../src/tmux/member-tmux.ts';
import { Epochs } from '../../../src/tmux/output/output-cursor.ts';
import { PaneLog, type Snapshot } from '../../../src/tmux/output/pane-log.ts';
import { PaneReader } from '../../../src/tmux/output/pane-reader.ts';

test('who comes back at a change of the screen, and reads on, is shown no screen that is older than that', async () => {
  const epochs = new Epochs();
  const log = new PaneLog(0, 1 << 20, epochs, systemClock);
  const say = (text: string) => {
    log.append(Buffer.from(text));
    log.flush();
  };
  const look = (): Snapshot => ({
    ...{ epoch: log.bytes.epoch, offset: log.bytes.end, mark: log.lastMark },
    ...{ takenAt: systemClock.monotonic(), state: 'text' },
    event: {
      ...{ kind: 'snapshot', cursor: log.bytes.cursor(log.bytes.end), at: new Date() },
      ...{ data: log.bytes.read(0, log.bytes.end), columns: 80, rows: 24 },
      ...{ cursorColumn: 0, cursorRow: 0, alternateScreen: false },
      ...{ source: 'CONTROL_CLIENT', screen: Buffer.alloc(0) },
    },
  });
  say('before');
  const cursor = { run: epochs.run, epoch: log.bytes.epoch, offset: log.bytes.end };
  const after = { text: log.bytes.cursor(log.bytes.end), cursor };
  log.mark(null);
  say(', one');
  // Somebody else was shown this one; it is shared while it is young.
  const shared = look();
  log.keep(shared, true, false);
  say(', two');

  const leave = new AbortController();
  const seat = {
    ...{ session: 0, log, [Symbol.dispose]: () => {} },
    snapshot: async (least: number) => (shared.offset >= least ? shared : look()),
  };
  const host = {
    tmux: { clock: systemClock } as MemberTmux,
    draining: leave.signal,
    sit: async () => seat,
  };
  const pane = { memberId: 'm', pathHex: '', generation: '', pane: 0 };
  const reader = new PaneReader(host, pane, seat, after, leave.signal);
  let shown = 'before';
  for await (const event of reader.events()) {
    if (event.kind === 'chunk') shown += Buffer.from(event.data);
    if (event.kind !== 'snapshot') continue;
    shown = String(event.data);
    break;
  }
  expect(shown).toBe('before, one, two');
});
