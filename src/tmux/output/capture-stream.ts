import { sleep } from '../../concurrency/clock.ts';
import { isRefusal } from '../errors.ts';
import type { LocatedPane, MemberTmux } from '../member-tmux.ts';
import type { PaneRef } from '../model.ts';
import type { PaneOutputEvent } from '../pane-events.ts';
import { captureByHelper, type HelperCapture } from './helper-capture.ts';
import { type Epochs, encodeCursor } from './output-cursor.ts';
import { drained, type PaneEnd } from './pane-log.ts';
import { screenText } from './pane-screen.ts';
import { whereabouts } from './pane-whereabouts.ts';
import { composeScreen } from './screen.ts';
import { plainScreen } from './screen-capture.ts';

const everyMs = 1_000;
const mostMs = 60_000;

/**
 * The stream of a pane that is not to be attached to, since leaving would end its session or its
 * server: looks once a second, and gives a snapshot whenever the screen changed. Nothing continues
 * such a snapshot, so each has an epoch of its own.
 */
export async function* captureStream(
  tmux: MemberTmux,
  pane: PaneRef,
  found: LocatedPane,
  epochs: Epochs,
  after: string | undefined,
  draining: AbortSignal,
  signal: AbortSignal,
): AsyncGenerator<PaneOutputEvent, void> {
  const either = AbortSignal.any([signal, draining]);
  const cursor = () => encodeCursor({ run: epochs.run, epoch: epochs.next(), offset: 0 });
  let located = found;
  let last: HelperCapture | undefined;
  let waitMs = everyMs;
  if (after !== undefined) {
    yield { kind: 'gap', cursor: after, missedBytes: null, reason: 'RECONNECTED' };
  }
  const closed = (end: PaneEnd): PaneOutputEvent => ({ kind: 'closed', cursor: cursor(), ...end });
  while (!signal.aborted) {
    if (draining.aborted) return yield closed(drained);
    try {
      const { helper, clock } = tmux;
      const now = await captureByHelper(helper, located.target, pane, 0, clock.now(), either);
      waitMs = everyMs;
      if (last === undefined || differs(last, now)) yield snapshot(now, cursor());
      last = now;
      if (now.dead) return yield closed(await exitOf(tmux, pane, located));
    } catch (error) {
      if (signal.aborted || draining.aborted) continue;
      if (!isRefusal(error) || last === undefined) throw error;
      const place = await whereabouts(tmux, pane, located.session.session);
      if (place.kind === 'ended') return yield closed(place.end);
      if (place.kind === 'there') located = place.located;
      waitMs = Math.min(2 * waitMs, mostMs);
    }
    // An abort is seen by the loop.
    await sleep(waitMs, tmux.clock, either).catch(() => {});
  }
}

function differs(last: HelperCapture, now: HelperCapture): boolean {
  return (
    last.columns !== now.columns ||
    last.rows !== now.rows ||
    last.cursorColumn !== now.cursorColumn ||
    last.cursorRow !== now.cursorRow ||
    last.alternate !== now.alternate ||
    Buffer.compare(last.data, now.data) !== 0
  );
}

function snapshot(now: HelperCapture, cursor: string): PaneOutputEvent {
  return {
    kind: 'snapshot',
    cursor,
    at: now.observedAt,
    data: composeScreen(plainScreen(now), new Uint8Array()),
    columns: now.columns,
    rows: now.rows,
    cursorColumn: now.cursorColumn,
    cursorRow: now.cursorRow,
    alternateScreen: now.alternate,
    source: 'CAPTURE',
    screen: screenText(plainScreen(now).visibleRows),
  };
}

/** The listing says how a dead pane ended. */
async function exitOf(tmux: MemberTmux, pane: PaneRef, located: LocatedPane): Promise<PaneEnd> {
  const place = await whereabouts(tmux, pane, located.session.session);
  if (place.kind === 'ended') return place.end;
  const seen = place.kind === 'there' ? place.located.pane : undefined;
  return {
    reason: 'EXITED',
    exitStatus: seen?.exitStatus ?? null,
    exitSignal: seen?.exitSignal ?? null,
  };
}
