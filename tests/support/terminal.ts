import headless from '@xterm/headless';
import type { PaneOutputEvent } from '../../src/tmux/pane-events.ts';

/**
 * A terminal emulator that is fed with a stream the way a client does it: a snapshot goes to a
 * blank terminal of its size, chunks continue it, `resized` resizes.
 */
export class Screen {
  #terminal = terminal(80, 24);
  #written = Promise.resolve();

  /** How many events it was fed with. */
  fed = 0;

  feed(event: PaneOutputEvent): void {
    this.fed += 1;
    if (event.kind === 'snapshot') {
      this.#terminal = terminal(event.columns, event.rows);
      this.#write(event.data);
    } else if (event.kind === 'chunk') this.#write(event.data);
    else if (event.kind === 'resized') this.#terminal.resize(event.columns, event.rows);
  }

  #write(data: Uint8Array): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#terminal.write(data, resolve);
    this.#written = this.#written.then(() => promise);
  }

  /** Resolves when everything fed is on the screen. */
  async settled(): Promise<void> {
    await this.#written;
  }

  get columns(): number {
    return this.#terminal.cols;
  }

  get rows(): number {
    return this.#terminal.rows;
  }

  get alternate(): boolean {
    return this.#terminal.buffer.active.type === 'alternate';
  }

  get modes() {
    return this.#terminal.modes;
  }

  get cursor(): string {
    const { cursorX, cursorY } = this.#terminal.buffer.active;
    return `${cursorX},${cursorY}`;
  }

  /** Rows without trailing blanks. */
  get text(): readonly string[] {
    const { active } = this.#terminal.buffer;
    return Array.from({ length: this.#terminal.rows }, (_, row) =>
      (active.getLine(active.baseY + row)?.translateToString(true) ?? '').trimEnd(),
    );
  }

  /** Background colour of each cell of a row, as xterm numbers it; -1 for the default. */
  backgrounds(row: number): readonly number[] {
    const { active } = this.#terminal.buffer;
    const line = active.getLine(active.baseY + row);
    return Array.from({ length: this.#terminal.cols }, (_, column) => {
      const cell = line?.getCell(column);
      return cell === undefined || cell.isBgDefault() ? -1 : cell.getBgColor();
    });
  }
}

function terminal(cols: number, rows: number): headless.Terminal {
  const made = new headless.Terminal({ cols, rows, scrollback: 0, allowProposedApi: true });
  // As tmux counts columns; a client does the same with @xterm/addon-unicode11.
  made.unicode.register({
    version: 'tmux',
    wcwidth,
    charProperties(codepoint, preceding) {
      const width = wcwidth(codepoint);
      const joins = width === 0 && preceding !== 0;
      const columns = joins ? (preceding >> 1) & 3 : width;
      return (columns << 1) | (joins ? 1 : 0);
    },
  });
  made.unicode.activeVersion = 'tmux';
  return made;
}

/** Columns of a character, as tmux counts them. */
export function wcwidth(codepoint: number): 0 | 1 | 2 {
  const character = String.fromCodePoint(codepoint);
  if (/\p{Mn}|\p{Me}|\u200d|[\ufe00-\ufe0f]/u.test(character)) return 0;
  return /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u.test(
    character,
  )
    ? 2
    : 1;
}
