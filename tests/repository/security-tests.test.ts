import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');

/** Rows of docs/security-tests.md whose test is not there. */
async function missing(page: string): Promise<{ cases: number; gone: readonly string[] }> {
  const rows = [...page.matchAll(/^\| (AB-\d\d|F-\d\d|X) \| .+? \| `([\w./-]+)` \| (.+) \|$/gm)];
  const gone: string[] = [];
  for (const [, id, file, title = ''] of rows) {
    const text = await readFile(join(root, `tests/${file}.test.ts`), 'utf8').catch(() => '');
    const isThere = ["'", '"', '`'].some((quote) => text.includes(`${quote}${title}${quote}`));
    if (!isThere) gone.push(`${id}: ${file}: ${title}`);
  }
  return { cases: rows.length, gone };
}

describe('docs/security-tests.md', () => {
  it('names tests that are there', async () => {
    const page = await readFile(join(root, 'docs/security-tests.md'), 'utf8');
    const table = page.split('\n').filter((line) => /^\| (?!case|---)/.test(line));
    const { cases, gone } = await missing(page);
    expect(gone).toEqual([]);
    expect(cases).toBe(table.length);
    console.log(`${cases} tests of abuse cases and faults`);
  });

  it('would be found out: a test that is gone, and a file that is', async () => {
    const planted = [
      '| AB-01 | x | `server/limits` | no such title |',
      '| AB-02 | x | `server/nothing` | a capture costs 20 |',
      '| AB-03 | x | `server/limits` | a capture costs 20 |',
    ];
    const { cases, gone } = await missing(planted.join('\n'));
    expect([cases, gone.length]).toEqual([3, 2]);
  });
});
