import { type Screen, wcwidth } from './terminal.ts';
import { eventually, type TmuxServer } from './tmux-server.ts';
import type { Reading } from './watched-tmux.ts';

/** What tmux itself shows of a pane. */
export async function tmuxScreen(tmux: TmuxServer, target: string) {
  const formats = '#{cursor_x},#{cursor_y} #{pane_width}x#{pane_height} #{alternate_on}';
  // One command: nothing changes between the two.
  const answer = await tmux.run(
    ...['display-message', '-p', '-t', target, formats, ';'],
    ...['capture-pane', '-p', '-t', target],
  );
  const [head = '', ...rows] = answer.split('\n');
  const [at = '', size = '', alternate = ''] = head.split(' ');
  const [width = 0, height = 0] = size.split('x').map(Number);
  const [column = 0, row = 0] = at.split(',').map(Number);
  // Up to 3.5a it stays where it was when a full-screen program's window gets narrower.
  const cursor = `${Math.min(column, width)},${row}`;
  const text = Array.from({ length: height }, (_, row) =>
    letters(expandTabs(rows[row] ?? '', width)).trimEnd(),
  );
  return { cursor, size, alternate: alternate === '1', text };
}

export function emulatorScreen(screen: Screen) {
  return {
    cursor: screen.cursor,
    size: `${screen.columns}x${screen.rows}`,
    alternate: screen.alternate,
    text: screen.text.map(letters),
  };
}

/** Feeds what came since, until the emulator shows what tmux shows; else says where they differ. */
export async function untilSame(
  screen: Screen,
  reading: Reading,
  tmux: TmuxServer,
  target: string,
  ms = 10_000,
): Promise<void> {
  let difference = '';
  try {
    await eventually(
      async () => {
        for (const event of reading.events.slice(screen.fed)) screen.feed(event);
        await screen.settled();
        const shown = emulatorScreen(screen);
        const wanted = await tmuxScreen(tmux, target);
        difference = `emulator ${JSON.stringify(shown, null, 1)}\ntmux ${JSON.stringify(wanted, null, 1)}`;
        return JSON.stringify(shown) === JSON.stringify(wanted);
      },
      'the emulator shows what tmux shows',
      ms,
    );
  } catch (cause) {
    const { error, finished, kinds } = reading;
    const ended = error ?? (finished ? 'it ended' : 'it goes on');
    throw new Error(`${difference}\nthe stream: ${ended}, after ${kinds.slice(-9).join(' ')}`, {
      cause,
    });
  }
}

/** Line drawing as the letters by which it was asked for: so prints `capture-pane` without `-e`. */
function letters(row: string): string {
  return row.replace(
    /[┘┐┌└┼─├┤┴┬│]/g,
    (drawn) => 'jklmnqtuvwx'['┘┐┌└┼─├┤┴┬│'.indexOf(drawn)] ?? '',
  );
}

function columnsOf(text: string): number {
  return [...text].reduce((sum, character) => sum + wcwidth(character.codePointAt(0) ?? 0), 0);
}

/** tmux 3.6 and later give a tab back as a tab. It leads to the last column at most. */
function expandTabs(row: string, width: number): string {
  let text = '';
  for (const character of row) {
    if (character !== '\t') text += character;
    else {
      const column = columnsOf(text);
      text += ' '.repeat(Math.max(0, Math.min(8 - (column % 8), width - 1 - column)));
    }
  }
  return text;
}
