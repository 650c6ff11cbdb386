import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/concurrency/clock.ts';
import {
  ControlClient,
  ControlEndedError,
  ControlTimeoutError,
} from '../../../src/tmux/output/control-client.ts';
import { ControlLine, controlLine, Nonce } from '../../../src/tmux/output/control-line.ts';
import { attachControl } from '../../support/control-connection.ts';
import { stopProcess } from '../../support/stop-process.ts';
import { presentClasses } from '../../support/tmux-classes.ts';
import { eventually, startTmux, type TmuxServer } from '../../support/tmux-server.ts';

async function connect(tmux: TmuxServer) {
  const seen = { output: Buffer.alloc(0), notifications: [] as string[] };
  const client = new ControlClient(
    await attachControl(tmux),
    {
      output: (_, data) => {
        seen.output = Buffer.concat([seen.output, data]);
      },
      notification: (name) => void seen.notifications.push(name),
      drained: () => {},
    },
    systemClock,
  );
  return { client, seen };
}

describe.each(presentClasses)('tmux %s', (version) => {
  test('answers reach who asked, in any mixture of commands, errors and brackets', async () => {
    await using tmux = await startTmux({ version });
    const { client } = await connect(tmux);
    await using _client = client;
    const asked = Array.from({ length: 60 }, async (_, n) => {
      if (n % 3 === 0) {
        const answer = await client.ask(controlLine`display-message -p ${n}`);
        expect(answer).toEqual({ ok: true, lines: [Buffer.from(String(n))] });
      } else if (n % 3 === 1) {
        expect((await client.ask(controlLine`kill-pane -t %${4_000 + n}`)).ok).toBe(false);
      } else {
        const lines = [
          controlLine`display-message -p ${n}`,
          controlLine`kill-pane -t %4000`,
          controlLine`display-message -p x`,
        ];
        const answers = await client.bracket(lines, (given) =>
          given.map(({ ok, lines: [first] }) => [ok, first?.toString()]),
        );
        expect(answers[0]).toEqual([true, String(n)]);
        expect(answers[1]?.[0]).toBe(false);
        expect(answers.length).toBe(2);
      }
    });
    await Promise.all(asked);
    expect(await client.ping(2_000)).toBe(true);
  });

  test('a screen full of forged ends is captured whole, and later answers are not shifted', async () => {
    await using tmux = await startTmux({ version, columns: 40, rows: 20, command: ['exec cat'] });
    const { client } = await connect(tmux);
    await using _client = client;
    const number = Number((await tmux.run('display-message', '-p', '#{start_time}')).trim());
    const forged = Array.from(
      { length: 8 },
      (_, n) => [`%end ${number + n} ${n} 1`, '%exit', `%begin 1 ${n} 1`][n % 3] ?? '',
    );
    for (const line of forged) await tmux.run('send-keys', '-t', 'main:', '-l', `${line}\n`);
    // What is typed is on the screen once tmux has read its echo.
    await eventually(async () => {
      const [rows] = await client.bracket([controlLine`capture-pane -p -t %0`], (answers) =>
        answers.map(({ lines }) => lines.map(String)),
      );
      return forged.every((line) => rows?.includes(line));
    }, 'all of it is on the screen');
    expect(await client.ping(2_000)).toBe(true);
  });

  test('a stopped server times out without shifting later answers, and a dead one ends everything', async () => {
    await using tmux = await startTmux({ version });
    const { client } = await connect(tmux);
    const pid = await tmux.pid();
    await stopProcess(pid);
    await expect(client.ask(controlLine`display-message -p late`, 100)).rejects.toThrow(
      ControlTimeoutError,
    );
    expect(await client.ping(100)).toBe(false);
    process.kill(pid, 'SIGCONT');
    const { lines } = await client.ask(controlLine`display-message -p next`);
    expect(lines.map(String)).toEqual(['next']);
    process.kill(pid, 'SIGKILL');
    await client.ended;
    await expect(client.ask(controlLine`display-message -p x`)).rejects.toThrow(ControlEndedError);
    await client[Symbol.asyncDispose]();
  });
});

test('a control line is one line of printable ASCII with whole numbers and nonces in it, whatever is given', () => {
  expect(controlLine`a %${7} ${new Nonce(Buffer.alloc(16, 1))}`.text).toBe(
    `a %7 ${'01'.repeat(16)}`,
  );
  for (const bad of [-1, 1.5, Number.NaN, Infinity, 2 ** 53]) {
    expect(() => controlLine`a ${bad}`).toThrow(RangeError);
  }
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      let line: string | undefined;
      try {
        line = new ControlLine([text], []).text;
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError);
      }
      if (line !== undefined) expect(line).toMatch(/^[ -~]+$/);
    }),
  );
});
