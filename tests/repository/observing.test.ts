import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');

it('every statement of docs/observing.md names a test that exists', async () => {
  const page = await readFile(join(root, 'docs/observing.md'), 'utf8');
  const cells = page
    .split('\n')
    .filter((line) => line.startsWith('| ') && !/^\| (what|-)/.test(line))
    .map((line) => line.split(' | ').at(-1) ?? '');
  expect(cells.length).toBeGreaterThan(8);
  for (const cell of cells) {
    const [, file = '', title = ''] = /^`(.+?)`: (.+?) \|$/.exec(cell) ?? [];
    const tests = await readFile(join(root, file || cell), 'utf8');
    expect(title).not.toBe('');
    expect(tests, `${file} has the test`).toContain(title);
  }
});
