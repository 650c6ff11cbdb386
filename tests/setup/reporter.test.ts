import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mw-reporter-'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Runs these test files in a project of their own. */
async function run(files: Readonly<Record<string, string>>, environment = {}) {
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, name), `import { it } from 'vitest';\n${text}\n`);
  }
  const result = await execa(
    join(root, 'node_modules/.bin/vitest'),
    ['run', '--root', folder, '--reporter', join(root, 'tests/setup/reporter.ts')],
    {
      env: { CI: '', ...environment, MUXWARDEN_TEST_RESULT: join(folder, 'result') },
      reject: false,
      stdin: 'ignore',
    },
  );
  const lines = result.stdout.split('\n');
  expect(await readFile(join(folder, 'result'), 'utf8')).toBe(`${lines.at(-1)}\n`);
  return { last: lines.at(-1), stdout: result.stdout, failed: result.exitCode !== 0 };
}

const passing = `it('holds', () => {});`;
const failing = `it('does not hold', () => { throw new Error('no'); });`;
const skipped = `it.runIf(false)('needs something', () => {});`;

describe('the last line', () => {
  it('counts what passed, over all files', async () => {
    const { last, failed } = await run({ 'a.test.ts': passing, 'b.test.ts': passing });
    expect([last, failed]).toEqual(['2 passed, 0 failed', false]);
  });

  it('counts what failed, and the run fails', async () => {
    const { last, failed } = await run({ 'a.test.ts': passing, 'b.test.ts': failing });
    expect([last, failed]).toEqual(['1 passed, 1 failed', true]);
  });

  it('names what was skipped, which fails the run in CI alone', async () => {
    const files = { 'a.test.ts': `${passing}\n${skipped}` };
    const here = await run(files);
    expect([here.last, here.failed]).toEqual(['1 passed, 0 failed, 1 skipped', false]);
    expect(here.stdout).toContain('skipped: a.test.ts: needs something');
    await rm(join(folder, 'result'));
    const ci = await run(files, { CI: 'true' });
    expect([ci.last, ci.failed]).toEqual(['1 passed, 0 failed, 1 skipped', true]);
  });

  it('counts a file that cannot be loaded and an error outside of every test as failed', async () => {
    const { last, failed } = await run({
      'a.test.ts': `throw new Error('not loaded');`,
      'b.test.ts': `${passing}\nvoid Promise.reject(new Error('nobody waits for me'));`,
    });
    expect([last, failed]).toEqual(['1 passed, 2 failed', true]);
  });
});
