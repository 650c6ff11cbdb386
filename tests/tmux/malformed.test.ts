import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { AnswerBytes } from '../../src/tmux/helper/answer.ts';
import { parseSnapshot } from '../../src/tmux/listing/rows.ts';
import { parseSessionRows } from '../../src/tmux/listing/session-rows.ts';
import { HelperError } from '../../src/tmux/member-helper.ts';
import { ControlParser, ControlProtocolError } from '../../src/tmux/output/protocol.ts';
import { helperPath } from '../support/helper-client.ts';
import { mutated, random, seed, withoutStacks } from '../support/mutations.ts';
import { scratchDirectory } from '../support/scratch.ts';
import { snapshotRows } from '../support/scripted-helper.ts';
import { rounds } from '../support/tier.ts';

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
  each: (bytes: Buffer) => void,
): void {
  using _ = withoutStacks();
  const next = random(seed);
  for (let left = count; left > 0; left -= 1) {
    const bytes = mutated(valid, words, next);
    try {
      each(bytes);
    } catch (cause) {
      throw new Error(`seed ${seed}, input ${JSON.stringify(bytes.toString('latin1'))}`, { cause });
    }
  }
  console.log(`${count} inputs, seed ${seed}`);
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
    forEach(rounds(10_000, 10_000_000), valid, words, (bytes) => {
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
      const end = `end\t1\t${rows.split('\n').length - 1}\t${Buffer.byteLength(rows)}\n`;
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
    // Once as it came, and once with an end record that fits, or all would be refused for that.
    forEach(rounds(10_000, 10_000_000), valid, words, (bytes) => {
      read(bytes);
      read(
        Buffer.from(
          framed(bytes.toString('latin1').replace(/^begin.*\n|end\t.*\n$/g, '')),
          'latin1',
        ),
      );
    });
    expect(whole).toBeGreaterThan(0);
  });

  it('requests to a helper end in an answer to what the protocol allows, or in misuse', {
    timeout: 3_600_000,
  }, async () => {
    await using folder = await scratchDirectory();
    const driver = join(folder.path, 'driver');
    await writeFile(driver, await driverOf());
    const server = 'socket=2f746d702f78 pid=12 ticks=345 start=67';
    const requests = {
      serve: [
        `1 snapshot dirs=2f74,2f75 skip=2f agents=636c61756465`,
        `2 capture ${server} pane=1 lines=0`,
        `3 display ${server} session=0\n4 describe ${server}`,
        '5 limits pid=1 ticks=2',
      ],
      act: [
        `1 kill-server ${server}`,
        `1 respawn-pane ${server} pane=0 panepid=7 dir=2f`,
        '1 signal pid=12 ticks=34 signal=term',
        '1 await pid=1 ticks=2 socket=2f ms=300',
        '1 survivors pids=1-2,3-4',
        '1 sweep socket=2f746d70',
      ],
      start: [
        'clean\t1\n',
        'session\ta\t6d61696e\t2f\t80\t24\t\nwindow\ta\tb\t0\t7368\t2f\t1\npane\tb\tc\t2f\t\t\n',
        'layout\tb\tb25d,80x24,0,0,0\nselect\tb\tc\ncurrent\ta\tb\t0\nzoom\tb\n',
      ].map((plan) => `1 start socket=2f746d70 tmux=2f62696e bytes=${plan.length}\n${plan}`),
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
    const count = rounds(10_000, 10_000_000);
    let accepted = 0;
    for (let done = 0; done < count; done += 50_000) {
      const inputs = Array.from({ length: Math.min(50_000, count - done) }, () => {
        const verb = (['serve', 'act', 'start'] as const)[next(3)] ?? 'act';
        const valid = requests[verb].map((text) => Buffer.from(`${text.replace(/\n?$/, '\n')}`));
        return { verb, bytes: mutated(valid, words, next) };
      });
      const lines = inputs.map(({ verb, bytes }) => `${verb} ${bytes.toString('hex')}\n`);
      await writeFile(join(folder.path, 'inputs'), lines.join(''));
      const { stdout } = await execa('perl', [driver, 'serve', join(folder.path, 'inputs')], {
        env: { PATH: '/usr/bin:/bin' },
        extendEnv: false,
      });
      const ends = stdout.split('\n');
      expect(ends).toHaveLength(inputs.length);
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

/**
 * The helper as it is, but for its end: it reads one input after the other, as a process of its own
 * would, and instead of what a request does it does nothing. For each it prints status and last words.
 */
async function driverOf(): Promise<string> {
  const source = await readFile(helperPath, 'utf8');
  const end = '\n$verbs{ $ARGV[0] }->();\nexit 0;\n';
  expect(source.endsWith(end)).toBe(true);
  const begin =
    'BEGIN { *CORE::GLOBAL::exit = sub { die bless [$_[0] // 0], q(Left) }; $main::file = pop @ARGV }\n';
  return `${begin}${source.slice(0, -end.length)}
    { no strict 'refs'; no warnings;
      *{"main::$_"} = sub { return } for grep { /\\A(?:act|request)_|\\A(?:limit|start_in_own_unit|begin_starter)\\z/ } keys %main::;
      *main::request_start = sub { read_plan($_[0]{bytes}); return }; }
    open my $inputs, '<', $main::file or die;
    open my $told, '>&', \\*STDOUT or die;
    open STDOUT, '>', '/dev/null' or die;
    while (my $line = <$inputs>) {
        my ($verb, $hex) = split / /, $line =~ s/\\n\\z//r;
        @ARGV = ($verb); $input = ''; alarm 0;
        pipe my $reader, my $writer or die;
        syswrite $writer, pack 'H*', $hex // ''; close $writer;
        open STDIN, '<&', $reader or die;
        my $said = '';
        { local *STDERR; open STDERR, '>', \\$said; local $SIG{__WARN__} = sub { die $_[0] };
          eval { $verbs{$verb}->(); 1 } }
        my $status = ref $@ ? $@->[0] : $@ ? "died: $@" : 0;
        print {$told} "$status $said" =~ s/\\n/ /gr =~ s/ \\z/ /r, "\\n";
    }
    close $told; POSIX::_exit(0);
  `;
}
