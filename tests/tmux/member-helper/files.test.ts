import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askOnce, helperPath, hex, rowsOf } from '../../support/helper-client.ts';
import { lacks } from '../../support/needs.ts';
import { Member } from './member.ts';

/** What the helper opens of a member's: folders, sockets, the lock beside one, and no file of his own. */

describe('the helper', () => {
  let member: Member;
  beforeAll(async () => {
    member = await Member.any();
  });
  afterAll(() => member[Symbol.asyncDispose]());

  const sweep = (socket: string) => askOnce('act', `sweep socket=${hex(socket)}`, member.runner);

  it('opens nothing but what docs/security.md lists', async () => {
    const text = await readFile(helperPath, 'utf8');
    const opened = [
      ...text.matchAll(
        /\b(?:sysopen|opendir)\s+(?:my )?\$\w+, ("[^"]*"|'[^']*'|[^,]+?)(?:,| or\b|\))/g,
      ),
    ];
    const known =
      /^["']\/(?:proc|dev)\b|^["']\/["']$|^'\/proc\/self\/fd\/'|^beside\(\$dir|^\$path$|^\$tmux$|^\$_\[0\]$/;
    expect(opened.length).toBeGreaterThan(10);
    expect(opened.map(([, what = '']) => what).filter((what) => !known.test(what))).toEqual([]);
    // `slurp` and `seen` take a path: each call names one of /proc or /dev itself.
    const read = [...text.matchAll(/\b(?:slurp|seen|first_line)\(([^,)]+)/g)].map(
      ([, what = '']) => what,
    );
    const own = read.filter(
      (what) => !/^["']\/(?:proc|dev)\/|^"\$task\/|^\$_(?:\[0\])?$/.test(what),
    );
    expect(own).toEqual([]);
    expect(text).not.toMatch(/\bopen\s*\(?\s*my\s+\$\w+,\s*'(?:<|>|\+<)'/);
  });

  it.skipIf(lacks('mkfifo'))(
    'takes no pipe, link, folder or file of another for the lock beside a socket, and waits for none',
    async () => {
      const folder = (await member.folder('locks')).toString();
      const socket = join(folder, 'default');
      const lock = `${socket}.lock`;
      const victim = member.path('victim');
      await member.run('sh', ['-c', 'echo mine > "$0"', victim]);
      const dead = `use Socket; socket my $s, AF_UNIX, SOCK_STREAM, 0; bind $s, pack_sockaddr_un($ARGV[0])`;
      await member.run('perl', ['-e', dead, socket]);
      const plants: readonly [string, readonly string[]][] = [
        ['a pipe', ['mkfifo', lock]],
        ['a link to a file', ['ln', '-s', victim, lock]],
        ['a link to nothing', ['ln', '-s', member.path('nothing'), lock]],
        ['a link to a device', ['ln', '-s', '/dev/zero', lock]],
        ['a folder', ['mkdir', lock]],
      ];
      for (const [what, [program = '', ...args]] of plants) {
        await member.run(program, args);
        const answer = await sweep(socket);
        expect([what, answer.failure?.[0]]).toEqual([what, 'EACCES']);
        expect((await stat(socket)).isSocket()).toBe(true);
        await member.run('rm', ['-rf', lock]);
      }
      expect(await readFile(victim, 'utf8')).toBe('mine\n');
      await expect(stat(member.path('nothing'))).rejects.toThrow('ENOENT');
      expect(rowsOf(await sweep(socket), 'swept')).toEqual([['1']]);
    },
  );
});
