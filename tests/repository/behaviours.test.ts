import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

/** docs/behaviours.md names tests; they have to be there, by these very names. */

const root = join(import.meta.dirname, '../..');

interface Proof {
  readonly of: string;
  readonly file: string;
  readonly title: string;
}

/** The rows of its tables; one without a proof is a fault as well. */
function proofsOf(page: string): readonly Proof[] {
  return page
    .split('\n')
    .filter((line) => line.startsWith('| ') && !/^\| (?:id|report|--)/.test(line))
    .flatMap((line) => {
      const [of = '', , proof = ''] = line.slice(2, -2).split(' | ');
      return proof.split('<br>').map((part) => {
        const [, file = '', title = ''] = /^`(tests\/[^`]+)`: "(.+)"$/.exec(part) ?? [];
        return { of, file, title: title.replaceAll('\\"', '"') };
      });
    });
}

/** Whether a file has a test or a group of that very title. */
function hasTest(text: string, title: string): boolean {
  const escaped = title.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(String.raw`(?:\b(?:it|test)|\))\(\s*(['"\u0060])${escaped}\1,`).test(text);
}

async function missing(proofs: readonly Proof[]): Promise<readonly Proof[]> {
  const found = await Promise.all(
    proofs.map(async ({ file, title }) =>
      hasTest(await readFile(join(root, file), 'utf8').catch(() => ''), title),
    ),
  );
  return proofs.filter((_, at) => !found[at]);
}

describe('the promises in docs/behaviours.md', () => {
  it('are proved by tests that exist', async () => {
    const proofs = proofsOf(await readFile(join(root, 'docs/behaviours.md'), 'utf8'));
    expect(await missing(proofs)).toEqual([]);
    expect(new Set(proofs.map(({ of }) => of)).size).toBeGreaterThan(30);
  });

  it('are found wanting where a file, a title or the whole proof is missing', async () => {
    const planted = proofsOf(
      [
        '| X-1 | a | `tests/repository/behaviours.test.ts`: "are proved by tests that exist" |',
        '| X-2 | b | `tests/repository/behaviours.test.ts`: "are proved by tests" |',
        '| X-3 | c | `tests/repository/nowhere.test.ts`: "are proved by tests that exist" |',
        '| X-4 | d | later |',
        '| X-5 | e | `tests/repository/behaviours.test.ts`: "are proved by tests that exist"<br>soon |',
      ].join('\n'),
    );
    expect(planted).toHaveLength(6);
    expect((await missing(planted)).map(({ of }) => of)).toEqual(['X-2', 'X-3', 'X-4', 'X-5']);
  });
});
