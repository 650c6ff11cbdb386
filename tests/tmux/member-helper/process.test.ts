import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readlink } from 'node:fs/promises';
import { execa } from 'execa';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  helperPath,
  hex,
  runHelper,
  ServingHelper,
  startHelper,
} from '../../support/helper-client.ts';
import { lacks } from '../../support/needs.ts';
import { rounds } from '../../support/tier.ts';
import { eventually, startTicks } from '../../support/tmux-server.ts';

const good = `1 snapshot dirs=${hex('/nowhere')}\n`;

describe('the helper as a process', () => {
  it.each([
    ['no verb', []],
    ['an unknown verb', ['list']],
    ['an option', ['--help']],
    ['a word more', ['serve', 'x']],
    ['an empty word more', ['serve', '']],
  ])('refuses %s', async (_, argv) => {
    const { code, stdout, stderr } = await runHelper(argv, good);
    expect([code, stdout]).toEqual([10, '']);
    expect(stderr).toMatch(
      /^muxwarden-member: misuse: takes one verb: act, control, serve, start\n$/,
    );
  });

  const longest = `1 snapshot dirs=${hex('/')}`;
  it.each([
    ['an unknown request', '1 list\n'],
    ['a request of another verb', `1 sweep socket=${hex('/x')}\n`],
    ['no sequence', `snapshot dirs=${hex('/')}\n`],
    ['a word that is missing', '1 snapshot\n'],
    ['a word twice', `1 snapshot dirs=2f dirs=2f\n`],
    ['a word that it does not take', '1 snapshot dirs=2f pane=1\n'],
    ['upper-case hex', '1 snapshot dirs=2F\n'],
    ['hex of odd length', '1 snapshot dirs=2f2\n'],
    ['an empty value', '1 snapshot dirs=\n'],
    ['two spaces', '1  snapshot dirs=2f\n'],
    ['a space at the end', '1 snapshot dirs=2f \n'],
    ['a tab', '1\tsnapshot dirs=2f\n'],
    ['a carriage return', '1 snapshot dirs=2f\r\n'],
    ['a negative number', '1 capture socket=2f pid=-1 ticks=1 start=1 pane=0 lines=0\n'],
    ['a number with a sign of tmux', '1 capture socket=2f pid=1 ticks=1 start=1 pane=%0 lines=0\n'],
    ['tmux syntax', '1 display socket=2f pid=1 ticks=1 start=1 session=0;kill-server\n'],
    ['a line of 4,097 bytes', `${longest}${'00'.repeat((4097 - longest.length) / 2)}x\n`],
    ['a line that does not end', 'x'.repeat(5_000)],
    ['an input that ends within a line', '1 snapshot dirs=2f'],
  ])('refuses %s', async (_, input) => {
    const { code, stdout, stderr } = await runHelper(['serve'], input);
    expect([code, stdout]).toEqual([10, '']);
    expect(stderr).toMatch(/^muxwarden-member: misuse: [^\n]+\n$/);
  });

  it('takes a line of 4,096 bytes with its end', async () => {
    const head = `1 snapshot dirs=${hex('/a')}`;
    const line = `${head}${'61'.repeat(Math.floor((4_095 - head.length) / 2))}`;
    expect(line.length + 1).toBeGreaterThan(4_090);
    expect((await runHelper(['serve'], `${line}\n`)).code).toBe(0);
  });

  it('never answers a random line but by refusing it', async () => {
    const count = rounds(15, 1_000);
    console.info(`${count} random lines`);
    const words = fc.constantFrom(
      'snapshot',
      'capture',
      'dirs=',
      '2f',
      'pane=1',
      ' ',
      ',',
      '\t',
      '#(x)',
      ';',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(words, fc.string())), async (parts) => {
        const line = parts.join('').replaceAll('\n', '');
        const { code, stdout, stderr } = await runHelper(['act'], `${line}\n`);
        expect([code, stdout]).toEqual([10, '']);
        expect(stderr).toMatch(/misuse/);
      }),
      { numRuns: count },
    );
  });

  it('answers one request after the other, and ends with its input', async () => {
    const helper = new ServingHelper();
    for (let round = 0; round < 3; round++) {
      const answer = await helper.ask(`snapshot dirs=${hex('/nowhere')}`);
      expect(answer.failure).toBeUndefined();
    }
    const closed = once(helper.child, 'close');
    helper.child.stdin.end();
    expect(await closed).toEqual([0, null]);
  });

  it('has a built environment, the root as directory and no descriptor of whoever starts it', async () => {
    const helper = startHelper(['serve'], undefined, {
      TMUX: '/x,1,1',
      TMUX_TMPDIR: '/y',
      LD_X: 'z',
      PERL_UNICODE: 'SDA',
    });
    helper.stdin.write(good);
    await once(helper.stdout, 'data');
    expect(await readlink(`/proc/${helper.pid}/cwd`)).toBe('/');
    const status = await readFile(`/proc/${helper.pid}/status`, 'utf8');
    expect(status).toMatch(/^Umask:\t0077$/m);
    helper.stdin.end();
    await once(helper, 'close');
  });

  it.skipIf(lacks('root'))(
    'refuses to run as root when sudo brought it there, and runs when started directly',
    async () => {
      const bySudo = await runHelper(['serve'], good, undefined, { SUDO_UID: '1000' });
      expect([bySudo.code, bySudo.stdout]).toEqual([11, '']);
      expect((await runHelper(['serve'], good)).code).toBe(0);
    },
  );

  it('needs nothing of Perl but perl-base', async () => {
    const program = `BEGIN { @INC = grep { m{/perl-base$} } @INC } my $helper = shift; do $helper; print $@`;
    const { stdout } = await execa('perl', ['-e', program, helperPath, 'serve'], { input: good });
    expect(stdout).toMatch(/^begin\t1\tsnapshot\n[\s\S]*\nend\t1\t\d+\t\d+$/);
  });

  it('ends when whoever started it is killed', async () => {
    const service = spawn(process.execPath, [
      '-e',
      `const c = require('node:child_process').spawn(process.argv[1], ['serve'], { stdio: ['pipe', 'inherit', 'inherit'] });
       c.stdin.write(process.argv[2]); console.log('pid ' + c.pid); setInterval(() => {}, 1000)`,
      helperPath,
      good,
    ]);
    let output = '';
    service.stdout.on('data', (chunk) => {
      output += chunk;
    });
    const pid = await eventually(
      () => /pid (\d+)[\s\S]*end\t1/.exec(output)?.[1],
      'the helper has answered',
    );
    service.kill('SIGKILL');
    await eventually(async () => (await startTicks(Number(pid))) === undefined, 'it is gone');
  });
});
