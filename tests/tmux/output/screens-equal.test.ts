import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'vitest';
import { ListingUnknownError } from '../../../src/tmux/errors.ts';
import type { PaneRef } from '../../../src/tmux/model.ts';
import { Screen } from '../../support/terminal.ts';
import { rounds } from '../../support/tier.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { untilSame } from '../../support/tmux-screen.ts';
import type { TmuxServer } from '../../support/tmux-server.ts';
import { type Reading, type WatchedTmux, watchTmux } from '../../support/watched-tmux.ts';

/**
 * A terminal emulator that is fed by snapshots and chunks shows what tmux itself says: text, cursor,
 * size and alternate screen, after each of many random acts on whatever program runs in the pane.
 */
const acts = rounds(20, 1_000);
const seed = Number(process.env.MUXWARDEN_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));

const text = Array.from(
  { length: 300 },
  (_, index) =>
    `${index} 漢字テスト é 🙂 \ttab ${'x'.repeat((index * 7) % 150)} 世界 ${'界'.repeat(index % 60)}`,
).join('\n');

/** Paints the whole screen anew for each key, rows in any order, as `htop` does: here and there, in colours. */
const redraw = String.raw`
$| = 1; system "stty raw -echo"; print "\e[?1049h\e[?25l"; my $n = 0;
while (sysread STDIN, my $key, 1) {
  last if $key eq "q"; $n++;
  my ($rows, $columns) = split / /, ${'`stty size`'}; print "\e[H\e[J" if $n % 5 == 0;
  for my $row (reverse 1 .. $rows) {
    my $bar = ($n * 7 + $row * 3) % ($columns - 2);
    printf "\e[%d;1H\e[3%dm[%s\e[0m\e[K\e[%d;%dH\e[7m%d\e[0m", $row, $row % 8, "|" x $bar, $row, $columns - 4, $row * $n % 100;
  }
  printf "\e[%d;%dH\e[?25h", 1 + $n % $rows, 1 + $n * 3 % $columns;
}
print "\e[?1049l"; system "stty sane"`;

interface Program {
  readonly start: readonly string[];
  readonly keys: readonly (readonly string[])[];
  readonly leave: readonly string[];
}

const programs: Readonly<Record<string, Program>> = {
  shell: {
    start: ['clear', 'Enter'],
    keys: [
      ['printf "\\033[31m漢字\\033[0m 🙂 %s\\n" é世界', 'Enter'],
      ['cat text | head -40', 'Enter'],
      ['printf "\\033[5;10Hhere\\033[2K\\n"', 'Enter'],
      ['i=0; while [ $i -lt 200 ]; do echo $i 界界界界; i=$((i+1)); done', 'Enter'],
      ['x 世界', 'BSpace', 'BSpace', 'C-c', ''],
      ['clear', 'Enter'],
      ['echo a; clear; echo b', 'Enter'],
    ],
    leave: [],
  },
  vim: {
    start: ["vim -u NONE -N -n -i NONE --cmd 'set encoding=utf-8 nowrap' text", 'Enter'],
    keys: [
      ...[
        ['C-f'],
        ['C-b'],
        ['G'],
        ['gg'],
        ['zt'],
        ['10j'],
        ['5k'],
        ['dd'],
        ['p'],
        ['u'],
        ['$'],
        ['0'],
      ],
      ['o', '漢字 🙂 new', 'Escape'],
      ['i', 'é', 'Escape'],
      ...[
        [':set wrap', 'Enter'],
        [':set nowrap', 'Enter'],
        [':split', 'Enter'],
        [':only', 'Enter'],
      ],
      ['/世界', 'Enter'],
    ],
    leave: ['Escape', ':qa!', 'Enter'],
  },
  less: {
    start: ['LESS= LESSCHARSET=utf-8 less text', 'Enter'],
    keys: [['Space'], ['b'], ['j'], ['k'], ['G'], ['g'], ['/19', 'Enter'], ['Right'], ['Left']],
    leave: ['q'],
  },
  redraw: {
    start: ['perl redraw.pl', 'Enter'],
    keys: [['a'], ['b'], ['c', 'd', 'e']],
    leave: ['q'],
  },
};

describe.concurrent.each(presentClasses)('tmux %s', (version) => {
  test('an emulator shows what tmux shows after any inputs, resizes, reconnects and joins', {
    timeout: rounds(60_000, 3_600_000),
  }, async () => {
    console.log(`screens equal: tmux ${version}, ${acts} acts, seed ${seed}`);
    await using lab = await watchTmux({ version, columns: 80, rows: 24, lingerMs: 5_000 });
    const { tmux } = lab;
    await writeFile(join(tmux.directory, 'text'), text);
    await writeFile(join(tmux.directory, 'redraw.pl'), redraw);
    const next = random(seed);
    const pick = <T>(all: readonly T[]): T => all[Math.floor(next() * all.length)] as T;
    const type = (keys: readonly string[]) => tmux.run('send-keys', '-t', 'main:', ...keys);
    await type([`cd '${tmux.directory}'; PS1='$ '; clear`, 'Enter']);
    let running = programs.shell as Program;
    const viewers = [new Viewer(lab, await lab.pane())];
    const done: string[] = [];
    const act = async () => {
      const kind = next();
      if (kind < 0.6) {
        const keys = pick(running.keys);
        done.push(keys.join(' '));
        await type(keys);
      } else if (kind < 0.7) {
        const [columns, rows] = [20 + Math.floor(next() * 100), 5 + Math.floor(next() * 40)];
        done.push(`${columns}x${rows}`);
        await tmux.run('resize-window', '-t', 'main:', '-x', `${columns}`, '-y', `${rows}`);
      } else if (kind < 0.8) {
        done.push('reconnect');
        pick(viewers).reconnect();
      } else if (kind < 0.9) {
        done.push('join');
        if (viewers.length === 3) viewers.shift()?.leave();
        viewers.push(new Viewer(lab, await lab.pane()));
      } else {
        const name = pick(Object.keys(programs));
        done.push(name);
        if (running.leave.length > 0) await type(running.leave);
        running = programs[name] as Program;
        await type(running.start);
      }
    };
    for (let count = 0; count < acts; count++) {
      await act();
      // Some acts come before anybody has seen what the last one did.
      if (next() < 0.3) continue;
      for (const viewer of viewers) {
        await viewer.untilSame(tmux).catch((cause: unknown) => {
          const last = done.slice(-12).join(' | ');
          throw new Error(`seed ${seed}, act ${done.length}, after ${last}`, { cause });
        });
      }
    }
    for (const viewer of viewers) await viewer.untilSame(tmux);
  });
});

/** One who watches with an emulator, and comes back with its last cursor. */
class Viewer {
  readonly #lab: WatchedTmux;
  readonly #pane: PaneRef;
  readonly #screen = new Screen();
  #reading: Reading;

  constructor(lab: WatchedTmux, pane: PaneRef) {
    this.#lab = lab;
    this.#pane = pane;
    this.#reading = lab.watch(pane);
  }

  reconnect(): void {
    const last = this.#reading.events[this.#screen.fed - 1];
    this.#reading.stop();
    this.#screen.fed = 0;
    this.#reading = this.#lab.watch(this.#pane, last?.cursor);
  }

  leave(): void {
    this.#reading.stop();
  }

  /** On a machine too busy for the helper the listing is not known for a while; then it is asked again. */
  async untilSame(tmux: TmuxServer): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await untilSame(this.#screen, this.#reading, tmux, 'main:');
      } catch (error) {
        const refused = this.#reading.error instanceof ListingUnknownError;
        if (!refused || attempt === 10) throw error;
        this.reconnect();
      }
    }
  }
}

/** mulberry32: the same numbers for the same seed. */
function random(from: number): () => number {
  let state = from;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
