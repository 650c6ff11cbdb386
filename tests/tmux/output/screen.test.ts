import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { Screen } from '../../support/terminal.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { untilSame } from '../../support/tmux-screen.ts';
import { eventually, type TmuxServer } from '../../support/tmux-server.ts';
import { watchTmux } from '../../support/watched-tmux.ts';

async function type(tmux: TmuxServer, ...keys: readonly string[]): Promise<void> {
  await tmux.run('send-keys', '-t', 'main:', ...keys);
}

async function onAlternate(tmux: TmuxServer): Promise<void> {
  await eventually(
    async () => (await tmux.run('display-message', '-p', '-t', 'main:', '#{alternate_on}')) === '1',
    'the alternate screen',
  );
}

const mixed = Array.from(
  { length: 200 },
  (_, index) => `${index} 漢字テスト é 🙂 \ttab ${'x'.repeat((index * 7) % 150)} 世界`,
).join('\n');

describe.concurrent.each(presentClasses)('tmux %s', (version) => {
  test('joined in the middle of vim, through edits, resizes and leaving it, an emulator shows what tmux shows', async () => {
    await using lab = await watchTmux({ version, columns: 90, rows: 25 });
    const { tmux } = lab;
    await writeFile(join(tmux.directory, 'text'), mixed);
    await type(
      tmux,
      `printf 'before vim \\033[31mred\\033[0m\\n'; vim -u NONE -N -n -i NONE --cmd 'set encoding=utf-8 nowrap' '${tmux.directory}/text'`,
      'Enter',
    );
    await onAlternate(tmux);
    await type(tmux, '40G', 'zt', '10l');
    await wait(300);
    const reading = lab.watch(await lab.pane());
    const snapshot = await reading.first('snapshot');
    expect(snapshot.alternateScreen).toBe(true);
    const screen = new Screen();
    await untilSame(screen, reading, tmux, 'main:');
    await type(tmux, 'o');
    await type(tmux, '-l', 'inserted 漢字 🙂 text');
    await type(tmux, 'Escape', 'dd', 'p', 'C-f', '5k');
    await untilSame(screen, reading, tmux, 'main:');
    for (const [columns, rows] of [
      [70, 20],
      [100, 30],
      [61, 11],
    ] as const) {
      await tmux.run('resize-window', '-t', 'main:', '-x', String(columns), '-y', String(rows));
      await untilSame(screen, reading, tmux, 'main:');
      await type(tmux, 'C-f', 'C-b', 'j');
      await untilSame(screen, reading, tmux, 'main:');
    }
    expect(reading.of('resized').at(-1)).toMatchObject({ columns: 61, rows: 11 });
    await type(tmux, ':q!', 'Enter');
    await untilSame(screen, reading, tmux, 'main:');
    expect(screen.alternate).toBe(false);
    expect(screen.text.join('\n')).toContain('before vim');
    expect(reading.kinds).not.toContain('gap');
  });

  test('joined in the middle of less and htop, an emulator shows what tmux shows', async () => {
    await using lab = await watchTmux({ version, columns: 80, rows: 24 });
    const { tmux } = lab;
    await writeFile(join(tmux.directory, 'text'), mixed);
    await type(tmux, `LESS= LESSCHARSET=utf-8 less '${tmux.directory}/text'`, 'Enter');
    await onAlternate(tmux);
    await type(tmux, 'Space', 'j', 'j');
    await wait(200);
    const pane = await lab.pane();
    const reading = lab.watch(pane);
    await reading.first('snapshot');
    const screen = new Screen();
    await untilSame(screen, reading, tmux, 'main:');
    await type(tmux, 'Space', 'b', 'j', '/19 漢', 'Enter');
    await untilSame(screen, reading, tmux, 'main:');
    await tmux.run('resize-window', '-t', 'main:', '-x', '50', '-y', '12');
    await untilSame(screen, reading, tmux, 'main:');
    await type(tmux, 'q');
    await untilSame(screen, reading, tmux, 'main:');
    reading.stop();

    await type(tmux, 'clear; htop -d 5 -C', 'Enter');
    await onAlternate(tmux);
    await wait(300);
    const again = lab.watch(pane);
    await again.first('snapshot');
    const second = new Screen();
    await untilSame(second, again, tmux, 'main:');
    await type(tmux, 'Down', 'Down');
    await tmux.run('resize-window', '-t', 'main:', '-x', '100', '-y', '30');
    await untilSame(second, again, tmux, 'main:');
    await type(tmux, 'q');
    await untilSame(second, again, tmux, 'main:');
  });

  test('modes, scroll region, tab stops, line drawing and a cursor behind the last column are in the snapshot', async () => {
    await using lab = await watchTmux({
      version,
      columns: 40,
      rows: 10,
      command: ['exec cat >/dev/null'],
    });
    const { tmux } = lab;
    const tty = await tmux.run('display-message', '-p', '-t', 'main:', '#{pane_tty}');
    const pane = await lab.pane();
    const print = (text: string | Buffer) => writeFile(tty, text);
    const join = async () => {
      const reading = lab.watch(pane);
      await reading.first('snapshot');
      const screen = new Screen();
      await untilSame(screen, reading, tmux, 'main:');
      return { reading, screen };
    };
    const sameThen = async (
      text: string,
      { reading, screen }: Awaited<ReturnType<typeof join>>,
    ) => {
      await print(text);
      await untilSame(screen, reading, tmux, 'main:');
      reading.stop();
    };

    await print(
      '\x1b[2J\x1b[H\x1b(0lqqqk\x1b(B ac\tb\r\n\x1b[?1h\x1b=\x1b[?1002h\x1b[?1006h\x1b[?25l',
    );
    const modes = await join();
    expect(modes.screen.modes).toMatchObject({
      applicationCursorKeysMode: true,
      applicationKeypadMode: true,
      mouseTrackingMode: 'drag',
    });
    expect(modes.screen.text[0]).toBe('┌───┐ ac        b');
    await sameThen('more', modes);

    await print('\x1b[?1l\x1b>\x1b[?1002l\x1b[?25h\x1b[2J\x1b[3;7r\x1b[7;1Hbottom of region');
    await sameThen('\r\nscrolls\r\nonly\r\nit', await join());

    await print('\x1b[?6h\x1b[2;3Horigin');
    const origin = await join();
    expect(origin.screen.modes.originMode).toBe(true);
    await sameThen('\x1b[1;1Htop', origin);

    await print('\x1b[?6l\x1b[r\x1b[2J\x1b[Habc\x1b[H\x1b[4h');
    const insert = await join();
    expect(insert.screen.modes.insertMode).toBe(true);
    await sameThen('xyz', insert);

    await print('\x1b[4l\x1b[2J\x1b[H\x1b[3g\x1b[1;4H\x1bH\x1b[1;11H\x1bH\x1b[1;1H');
    const stops = await join();
    // From 3.6 on tmux gives tabs back as tabs, so it can't be asked where they led.
    await print('\tone\ttwo\tend');
    const row = `   one    two${' '.repeat(26)}e`;
    await eventually(async () => {
      for (const event of stops.reading.events.slice(stops.screen.fed)) stops.screen.feed(event);
      await stops.screen.settled();
      return stops.screen.text[0] === row;
    }, row);
    stops.reading.stop();

    await print(`\x1b[2J\x1b[H\x1b[31mred \x1b[42mrow\x1b[0m\r\n\x1b[1;34m${'y'.repeat(40)}`);
    const wrapping = await join();
    expect(wrapping.screen.cursor).toBe('40,1');
    await sameThen('z', wrapping);

    await print(`\x1b[0m\x1b[2J\x1b[H${'界'.repeat(20)}`);
    await sameThen('世\r\n', await join());

    await print('\x1b[?7l\x1b[5;38H');
    // Where the cursor stands behind the last column without wrapping is each terminal's own.
    await sameThen('12345\r', await join());

    await print('\x1b[?7h\x1b[2J\x1b[Hhalf \x1b[3');
    await sameThen('1mred\x1b[0m', await join());

    // A character of which tmux has seen the first bytes only, before anybody watched.
    await eventually(async () => (await lab.controlClients()) === 0, 'nobody watches');
    await print(Buffer.from('\r\nsplit 漢').subarray(0, -1));
    const split = await join();
    await print(Buffer.from('漢').subarray(2));
    await untilSame(split.screen, split.reading, tmux, 'main:');
    expect(split.reading.kinds).toEqual(['snapshot', 'chunk', 'snapshot']);
  });

  test('the colour of cleared cells is in the snapshot where tmux tells it', async () => {
    await using lab = await watchTmux({
      version,
      columns: 20,
      rows: 5,
      command: ['exec cat >/dev/null'],
    });
    const tty = await lab.tmux.run('display-message', '-p', '-t', 'main:', '#{pane_tty}');
    await writeFile(tty, '\x1b[44m\x1b[2J\x1b[Hblue  \x1b[0m');
    const reading = lab.watch(await lab.pane());
    const screen = new Screen();
    screen.feed(await reading.first('snapshot'));
    await screen.settled();
    expect(screen.backgrounds(0).slice(0, 6)).toEqual([4, 4, 4, 4, 4, 4]);
    // 3.2 to 3.4 leave cleared cells out of what they capture.
    if (version !== '3.3a') expect(screen.backgrounds(3)).toEqual(Array(20).fill(4));
  });
});
