import type { Clock } from '../../concurrency/clock.ts';
import type { ControlClient } from './control-client.ts';
import type { PaneLog, Snapshot } from './pane-log.ts';
import { screenText } from './pane-screen.ts';
import { stateAfter } from './plain-text.ts';
import { composeScreen } from './screen.ts';
import { captureLines, readCapture } from './screen-capture.ts';

const usualDeadlineMs = 5_000;
/** Joining readers share a snapshot while it is so young, and little came since. */
const sharedMs = 1_000;
const sharedBytes = 16_384;

/** Captures under way: who asks meanwhile gets the same one, which can't be older than the asking. */
const underWay = new WeakMap<PaneLog, Promise<Snapshot | undefined>>();

/**
 * A snapshot whose offset is `least` or later, exact to the byte: output that the connection
 * brought before the capture is in the picture, all that comes behind it is not.
 * Undefined when tmux says that there is no such pane.
 * @throws ControlEndedError, ControlTimeoutError
 */
export function takeSnapshot(
  client: ControlClient,
  log: PaneLog,
  least: number,
  clock: Clock,
  deadlineMs: number = usualDeadlineMs,
): Promise<Snapshot | undefined> {
  const shared = log.snapshot;
  if (
    shared !== undefined &&
    shared.epoch === log.bytes.epoch &&
    shared.mark === log.lastMark &&
    shared.offset >= least &&
    shared.offset >= log.bytes.start &&
    log.bytes.end - shared.offset <= sharedBytes &&
    clock.monotonic() - shared.takenAt <= sharedMs
  ) {
    return Promise.resolve(shared);
  }
  const known = underWay.get(log);
  if (known !== undefined) return known;
  const taken = capture(client, log, clock, deadlineMs).finally(() => underWay.delete(log));
  underWay.set(log, taken);
  return taken;
}

function capture(
  client: ControlClient,
  log: PaneLog,
  clock: Clock,
  deadlineMs: number,
): Promise<Snapshot | undefined> {
  return client.bracket(
    captureLines(log.pane),
    (answers) => {
      const screen = readCapture(answers);
      if (screen === undefined) return undefined;
      log.sized(screen.columns, screen.rows);
      const { bytes } = log;
      const offset = bytes.end;
      const carry = bytes.carryBefore(offset);
      const snapshot: Snapshot = {
        epoch: bytes.epoch,
        offset,
        mark: log.lastMark,
        takenAt: clock.monotonic(),
        state: stateAfter(screen.pending, 'text'),
        event: {
          kind: 'snapshot',
          cursor: bytes.cursor(offset),
          at: new Date(clock.now()),
          data: composeScreen(screen, carry),
          columns: screen.columns,
          rows: screen.rows,
          cursorColumn: screen.cursorColumn,
          cursorRow: screen.cursorRow,
          alternateScreen: screen.alternate,
          source: 'CONTROL_CLIENT',
          screen: screenText(screen.visibleRows.slice(0, screen.rows)),
        },
      };
      const savedOff = screen.alternate && screen.savedRows.length !== screen.rows;
      log.keep(snapshot, bytes.seen || screen.pending.length > 0, savedOff);
      return snapshot;
    },
    deadlineMs,
  );
}
