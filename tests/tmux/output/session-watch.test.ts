import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/concurrency/clock.ts';
import { Epochs } from '../../../src/tmux/output/output-cursor.ts';
import { SessionWatch } from '../../../src/tmux/output/session-watch.ts';
import { attachControl } from '../../support/control-connection.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually, startTmux } from '../../support/tmux-server.ts';

describe.concurrent.each(presentClasses.filter((version) => version !== '3.1c'))(
  'tmux %s',
  (version) => {
    test('after seconds in which we could not read, the stream goes on: whole, or with an honest gap', async () => {
      await using tmux = await startTmux({ version });
      // What a process sees that was stopped: time has passed, and its timers come late.
      let stoppedMs = 0;
      const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + stoppedMs };
      const connection = await attachControl(tmux);
      await using watch = new SessionWatch({
        session: 0,
        connection,
        clock,
        epochs: new Epochs(),
        logBytes: 64 << 20,
        doorbell: () => {},
        answersOthers: async () => true,
      });
      const log = watch.log(0);
      await watch.snapshot(log, 0);
      const epoch = log.bytes.epoch;
      await tmux.run(
        'send-keys',
        '-t',
        'main:',
        'i=0; while :; do i=$((i+1)); echo line $i; done',
        'Enter',
      );
      await eventually(() => log.bytes.end > 10_000, 'output');
      connection.output.pause();
      await wait(13_000);
      stoppedMs = 13_000;
      connection.output.resume();
      await wait(3_000);
      const from = log.bytes.end;
      await eventually(() => log.bytes.end > from + 1_000, 'output goes on', 20_000);
      const paused = log.bytes.epoch !== epoch;
      console.log(`tmux ${version}: ${paused ? 'paused the pane' : 'kept everything'}`);
      if (paused) expect(log.bytes.reasonOf(epoch)).toBe('TMUX_PAUSED');
      else {
        const lines = log.bytes
          .read(0, log.bytes.end)
          .toString()
          .matchAll(/line (\d+)\r\n/g);
        let before = 0;
        let breaks = 0;
        for (const [, line] of lines) {
          if (Number(line) !== before + 1) breaks += 1;
          before = Number(line);
        }
        expect(before).toBeGreaterThan(100);
        expect(breaks).toBe(0);
      }
      await tmux.run('send-keys', '-t', 'main:', 'C-c', '');
      await wait(500);
      const snapshot = await watch.snapshot(log, log.bytes.end);
      expect(snapshot?.epoch).toBe(log.bytes.epoch);
    });
  },
);
