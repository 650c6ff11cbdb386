import type { Fleet } from '../../src/tmux/fleet.ts';
import type { PaneRef } from '../../src/tmux/model.ts';
import type { PaneOutputEvent } from '../../src/tmux/pane-events.ts';

/**
 * Watches a pane, has a word printed in it, and leaves once that word came through. Gives all events.
 * `run` is a tmux client of that server.
 */
export async function watchAndEcho(
  fleet: Fleet,
  pane: PaneRef,
  run: (...command: string[]) => Promise<unknown>,
): Promise<readonly PaneOutputEvent[]> {
  const leave = new AbortController();
  const seen: PaneOutputEvent[] = [];
  for await (const event of fleet.output(pane, undefined, leave.signal)) {
    seen.push(event);
    if (seen.length === 1) {
      await run('send-keys', '-t', `%${pane.pane}`, 'printf %s-%s so far', 'Enter');
    }
    const shown = seen.map((one) =>
      'data' in one ? Buffer.from(one.data).toString('latin1') : '',
    );
    if (shown.join('').includes('so-far')) break;
  }
  leave.abort();
  return seen;
}
