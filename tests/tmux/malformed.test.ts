import { describe, expect, it } from 'vitest';
import { AnswerBytes } from '../../src/tmux/helper/answer.ts';
import { parseSnapshot } from '../../src/tmux/listing/rows.ts';
import { parseSessionRows } from '../../src/tmux/listing/session-rows.ts';
import { HelperError } from '../../src/tmux/member-helper.ts';
import { ControlParser, ControlProtocolError } from '../../src/tmux/output/protocol.ts';
import { type DrivenInput, drivenHelper } from '../support/driven-helper.ts';
import {
  inputCount,
  Leftover,
  mutated,
  random,
  seed,
  withoutStacks,
} from '../support/mutations.ts';
import { snapshotRows } from '../support/scripted-helper.ts';

/**
 * What comes over the line between service and member, malformed, in both directions: each reader
 * takes it for what it is or refuses it in its own words, and never fails in another way.
 */
const texts = (...list: readonly string[]) => list.map((text) => Buffer.from(text, 'latin1'));

/** @param each is given every input; what it throws names the input that it was */
function forEach(
  count: number,
  valid: readonly Buffer[],
  words: readonly Buffer[],
  each: (bytes: Buffer, number: number) => void,
): void {
  using _ = withoutStacks();
  const next = random(seed);
  const leftover = new Leftover();
  for (let number = 0; number < count; number += 1) {
    const bytes = mutated(valid, words, next);
    leftover.after(number);
    try {
      each(bytes, number);
    } catch (cause) {
      throw new Error(`seed ${seed}, input ${JSON.stringify(bytes.toString('latin1'))}`, { cause });
    }
  }
  console.log(`${count} inputs, seed ${seed}, ${leftover.mebibytes} MiB left`);
  expect(leftover.mebibytes).toBeLessThan(200);
}

describe('malformed', () => {
  it('control streams end in events or in a ControlProtocolError', { timeout: 3_600_000 }, () => {
    const nonce = 'b'.repeat(32);
    const last = 'a'.repeat(32);
    const valid = texts(
      '%begin 1700000001 42 1\n%0\n%1\n%end 1700000001 42 1\n%output %0 one\\015\\012c\\134d\n',
      `%begin 1 7 1\nscreen\n${nonce}\n%end 1 7 1\n%begin 1 8 1\n${last}\n%end 1 8 1\n%sessions-changed\n`,
      '%output %12 \\033[1m\xe4\xb8\x96\n%extended-output %3 20 : data\n%layout-change @0 b25d,80x24,0,0,0 x\n',
      '%begin 1 9 0\nforeign\n%error 1 9 0\n%session-changed $1 main\n%window-close @3\n%exit\n%pause %0\n',
    );
    const words = texts(
      '%begin 1 2 1\n',
      '%end 1 2 1\n',
      '%error ',
      '%output %',
      '\\',
      '\\09',
      ' : ',
      '\n',
      '%',
      nonce,
      last,
      '\r\n',
      '\0',
      '99999999999999999999',
    );
    const answers = () => {};
    forEach(inputCount(10_000), valid, words, (bytes) => {
      const queue = [{ nonces: [nonce], last }, undefined, { nonces: [], last }];
      const parser = new ControlParser({
        output: answers,
        notification: answers,
        opened: () => queue.shift(),
        block: answers,
        bracket: answers,
      });
      const half = bytes.length >> 1;
      try {
        parser.push(Buffer.from(bytes.subarray(0, half)));
        parser.push(Buffer.from(bytes.subarray(half)));
      } catch (error) {
        if (!(error instanceof ControlProtocolError)) throw error;
      }
    });
  });

  it('answers of a helper end in rows or in a HelperError', { timeout: 3_600_000 }, () => {
    const framed = (rows: string) => {
      const end = `end\t1\t${rows.split('\n').length - 1}\t${rows.length}\n`;
      return `begin\t1\tsnapshot\n${rows}${end}`;
    };
    const rows = snapshotRows({ servers: [{ sessions: ['main', 'x'], titles: ['a', 'b'] }] });
    const valid = texts(framed(rows), framed(snapshotRows()), framed(''));
    const words = texts(
      '\t',
      '\n',
      'end\t1\t0\t0\n',
      'pane\t',
      'server\t',
      'session\t',
      'fields\t',
      'fail\tEDIR\tx\n',
      'ff',
      '-1',
      '99999999999999999999',
      '\xff',
      '\0',
      '[A-Z]{9}',
    );
    let whole = 0;
    const read = (bytes: Buffer) => {
      try {
        const answer = new AnswerBytes(1, 'snapshot');
        if (!answer.push(bytes)) return;
        const snapshot = parseSnapshot(answer.answer().lines);
        whole += 1;
        for (const server of snapshot.servers)
          parseSessionRows(`${server.rows}`, snapshot.columns, new Map());
      } catch (error) {
        if (!(error instanceof HelperError)) throw error;
      }
    };
    const frame = /^begin.*\n|end\t.*\n$/g;
    forEach(inputCount(10_000), valid, words, (bytes, number) => {
      // Every other one with an end record that fits, or all would be refused for that.
      if (number % 2 === 0) read(bytes);
      else read(Buffer.from(framed(bytes.toString('latin1').replace(frame, '')), 'latin1'));
    });
    expect(whole).toBeGreaterThan(0);
  });

  it('requests to a helper end in an answer to what the protocol allows, or in misuse', {
    timeout: 3_600_000,
  }, async () => {
    await using helper = await drivenHelper();
    const server = 'socket=2f746d702f78 pid=12 ticks=345 start=67';
    const line = (text: string) => Buffer.from(`${text.replace(/\n?$/, '\n')}`);
    const requests = {
      serve: [
        `1 snapshot dirs=2f74,2f75 skip=2f agents=636c61756465`,
        `2 capture ${server} pane=1 lines=0`,
        `3 display ${server} session=0\n4 describe ${server}`,
        '5 limits pid=1 ticks=2',
      ].map(line),
      act: [
        `1 kill-server ${server}`,
        `1 respawn-pane ${server} pane=0 panepid=7 dir=2f`,
        '1 signal pid=12 ticks=34 signal=term',
        '1 await pid=1 ticks=2 socket=2f ms=300',
        '1 survivors pids=1-2,3-4',
        '1 sweep socket=2f746d70',
      ].map(line),
      start: [
        'clean\t1\n',
        'session\ta\t6d61696e\t2f\t80\t24\t\nwindow\ta\tb\t0\t7368\t2f\t1\npane\tb\tc\t2f\t\t\n',
        'layout\tb\tb25d,80x24,0,0,0\nselect\tb\tc\ncurrent\ta\tb\t0\nzoom\tb\n',
      ].map((plan) => line(`1 start socket=2f746d70 tmux=2f62696e bytes=${plan.length}\n${plan}`)),
    };
    const words = texts(
      ' ',
      '=',
      ',',
      '\n',
      '\t',
      '\0',
      '#(x)',
      ';',
      '2f',
      'FF',
      'pid=',
      '-1',
      '9'.repeat(16),
      '99999',
      '\xff',
      '٣',
      'a'.repeat(4_100),
      'signal=kill',
    );
    const allowed = /^\d{1,15} [a-z-]+(?: [a-z]+=[0-9a-z,-]+)*$/;
    const next = random(seed);
    const count = inputCount(10_000);
    let accepted = 0;
    for (let done = 0; done < count; done += 50_000) {
      const inputs = Array.from({ length: Math.min(50_000, count - done) }, (): DrivenInput => {
        const verb = (['serve', 'act', 'start'] as const)[next(3)] ?? 'act';
        return { verb, bytes: mutated(requests[verb], words, next) };
      });
      const ends = await helper.run(inputs);
      for (const [index, end] of ends.entries()) {
        const { verb, bytes } = inputs[index] ?? expect.fail();
        const [first = ''] = bytes.toString('latin1').split('\n');
        const isAnswered = end === '0 ';
        if (isAnswered && bytes.length > 0) accepted += 1;
        const isRight = isAnswered
          ? first === '' || allowed.test(first)
          : /^10 muxwarden-member: misuse: /.test(end);
        if (!isRight)
          expect.fail(`seed ${seed}: ${verb} ${JSON.stringify(bytes.toString('latin1'))}: ${end}`);
      }
    }
    console.log(`${count} inputs of a helper, ${accepted} of them allowed; seed ${seed}`);
    expect(accepted).toBeGreaterThan(0);
  });
});
