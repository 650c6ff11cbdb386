import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Screen } from '../../support/terminal.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually } from '../../support/tmux-server.ts';
import { watchTmux } from '../../support/watched-tmux.ts';

describe.each(presentClasses)('tmux %s', (version) => {
  test('a snapshot comes first and what the program writes continues it', async () => {
    await using lab = await watchTmux({ version });
    await lab.tmux.run('send-keys', '-t', 'main:', 'echo before', 'Enter');
    const pane = await lab.pane();
    const reading = lab.watch(pane);
    const snapshot = await reading.first('snapshot');
    expect(snapshot.source).toBe('CONTROL_CLIENT');
    expect([snapshot.columns, snapshot.rows, snapshot.alternateScreen]).toEqual([80, 24, false]);
    expect(Buffer.from(snapshot.data).toString()).toContain('before');
    await lab.tmux.run('send-keys', '-t', 'main:', 'echo af""ter', 'Enter');
    await eventually(() => reading.bytes.includes('\nafter'), 'the echo');
    reading.stop();
    await eventually(async () => (await lab.controlClients()) === 0, 'no control client is left');
  });

  test('3,000 lines of anything arrive to the byte', async () => {
    await using lab = await watchTmux({ version });
    const all = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => byte >= 0x80);
    const lines = Array.from({ length: 3_000 }, (_, index) =>
      Buffer.concat([
        Buffer.from(`${index} é世🙂 \x1b[3${index % 8}mcolour\x1b[0m \\ \\015 %end 1 2 3 `),
        Buffer.from(index % 7 === 0 ? all : []),
        Buffer.from(index % 5 === 0 ? '\r\n%end 1 2 3\r\n%output %0 x\r\n%exit\r\n' : '\r\n'),
      ]),
    );
    const whole = Buffer.concat(lines);
    const file = join(lab.tmux.directory, 'bytes');
    await writeFile(file, whole);
    const reading = lab.watch(await lab.pane());
    await reading.first('snapshot');
    await lab.tmux.run(
      'send-keys',
      '-t',
      'main:',
      `stty raw -echo; cat '${file}'; printf D""ONE; exec cat`,
      'Enter',
    );
    await eventually(() => reading.bytes.includes('DONE'), 'the end of the bytes', 30_000);
    const got = reading.bytes;
    const end = got.indexOf('DONE');
    const sent = got.subarray(end - whole.length, end);
    expect(createHash('sha256').update(sent).digest('hex')).toBe(
      createHash('sha256').update(whole).digest('hex'),
    );
    expect(reading.kinds.filter((kind) => kind !== 'chunk')).toEqual(['snapshot']);
  });

  test('joining while output races the capture loses nothing and doubles nothing', async () => {
    await using lab = await watchTmux({ version, columns: 40, rows: 10 });
    await lab.tmux.run(
      'send-keys',
      '-t',
      'main:',
      'i=0; while :; do i=$((i+1)); echo line $i; done',
      'Enter',
    );
    const pane = await lab.pane();
    for (let round = 0; round < 8; round++) {
      const reading = lab.watch(pane);
      await eventually(() => reading.bytes.length > 2_000, 'some output');
      reading.stop();
      await reading.done;
      const screen = new Screen();
      const snapshot = await reading.first('snapshot');
      screen.feed(snapshot);
      await screen.settled();
      const text = `${upToCursor(screen)}${reading.bytes.toString()}`;
      const numbers = [...text.matchAll(/line (\d+)\r?\n/g)].map((match) => Number(match[1]));
      expect(numbers.length).toBeGreaterThan(50);
      const gaps = numbers.slice(1).filter((n, index) => n !== (numbers[index] ?? 0) + 1);
      expect(gaps).toEqual([]);
    }
  });
});

/** What was written so far, a blank right before the cursor included. */
function upToCursor({ cursor, text }: Screen): string {
  const [column = 0, row = 0] = cursor.split(',').map(Number);
  return [...text.slice(0, row), (text[row] ?? '').padEnd(column)].join('\n');
}
