import { type Clock, sleep } from '../../concurrency/clock.ts';
import { MadeOf } from '../../made-of.ts';
import type { PaneOutputEvent, PaneScreenEvent } from '../pane-events.ts';

/**
 * A pane as pictures: the screen whenever it changed, `everyMs` apart at least. Made of the stream of
 * its output, of which nothing but snapshots is kept: whatever else comes says that there is a new
 * screen to be had, and `skip` has the stream begin with it.
 *
 * All wait for the same moments, so those who watch a pane at one pace ask at once, and share the
 * capture. Panes have moments of their own, or all of them would be captured at once.
 */
export async function* paneScreens(
  events: AsyncIterable<PaneOutputEvent>,
  skip: () => void,
  { everyMs, pane, clock, signal }: ScreenPace,
): AsyncGenerator<PaneScreenEvent, void> {
  let last: PaneScreenEvent | undefined;
  for await (const event of events) {
    if (event.kind === 'closed') return yield event;
    if (event.kind === 'snapshot') {
      const screen = screenOf(event);
      if (last !== undefined && isSame(last, screen)) continue;
      last = screen;
      yield screen;
    } else if (event.kind === 'chunk' || event.kind === 'resized') {
      const phase = (pane * 37) % everyMs;
      const wait = everyMs - ((clock.monotonic() + everyMs - phase) % everyMs);
      // An abort ends the stream itself.
      await sleep(wait, clock, signal).catch(() => {});
      skip();
    }
  }
}

type SnapshotEvent = Extract<PaneOutputEvent, { kind: 'snapshot' }>;
type ScreenEvent = Extract<PaneScreenEvent, { kind: 'screen' }>;
const screens = new MadeOf<SnapshotEvent, ScreenEvent>();

/** The same object for all who share the snapshot. */
function screenOf(event: SnapshotEvent): ScreenEvent {
  let screen = screens.get(event);
  if (screen === undefined) {
    const { kind: _kind, data: _data, source: _source, ...seen } = event;
    screen = { kind: 'screen', ...seen };
    screens.set(event, screen);
  }
  return screen;
}

export interface ScreenPace {
  readonly everyMs: number;
  readonly pane: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

function isSame(last: PaneScreenEvent, now: PaneScreenEvent): boolean {
  return (
    last.kind === 'screen' &&
    now.kind === 'screen' &&
    last.columns === now.columns &&
    last.rows === now.rows &&
    last.cursorColumn === now.cursorColumn &&
    last.cursorRow === now.cursorRow &&
    Buffer.compare(last.screen, now.screen) === 0
  );
}

const drawn: Readonly<Record<string, string>> = {
  ...{ j: '┘', k: '┐', l: '┌', m: '└', n: '┼', q: '─', t: '├', u: '┤', v: '┴', w: '┬', x: '│' },
  ...{ '`': '◆', a: '▒', f: '°', g: '±', o: '⎺', p: '⎻', r: '⎼', s: '⎽', y: '≤', z: '≥', '~': '·' },
};

/** Rows as `capture-pane -e` prints them, ended by LF; line drawing as the characters that it shows. */
export function screenText(rows: readonly Uint8Array[]): Buffer {
  const bytes = Buffer.concat(rows.flatMap((row) => [row, Buffer.from('\n')]));
  if (!bytes.includes(0x0e)) return bytes;
  const text = bytes
    .toString('latin1')
    .replace(/\x0e([^\x0f]*)\x0f?/g, (_, letters: string) =>
      letters.replace(/\x1b\[[\d;:]*m|[`-~]/g, (each) =>
        Buffer.from(drawn[each] ?? each).toString('latin1'),
      ),
    );
  return Buffer.from(text, 'latin1');
}
