import { access, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';

/** Rules that no linter knows. Each is shown to be red for a planted fault. */

const root = join(import.meta.dirname, '../..');

interface Rule {
  readonly what: string;
  readonly where: RegExp;
  readonly wrong: RegExp;
  readonly planted: string;
}

// Written in two halves, so that this file does not break its own rules.
const rules: readonly Rule[] = [
  {
    what: 'no test is skipped, planned or alone in being run',
    where: /^tests\/.*\.ts$/,
    wrong: /\b(it|test|describe)\.(skip|todo|only)\b/,
    planted: ['it.sk', 'ip("x", () => {});'].join(''),
  },
  {
    what: 'no module is mocked',
    where: /^(tests|src)\/.*\.ts$/,
    wrong: /\bvi\.(do)?mock\b/i,
    planted: ['vi.mo', 'ck("node:fs");'].join(''),
  },
  {
    what: 'no process is started synchronously by the service',
    where: /^src\/.*\.ts$/,
    wrong: /\b(exec|execFile|spawn)Sync\b/,
    planted: "import { spawnSync } from 'node:child_process';",
  },
  {
    what: 'no file is asked for in the way that answers wrongly below a closed folder',
    where: /^src\/.*\.ts$/,
    wrong: /\bexistsSync\b/,
    planted: "import { existsSync } from 'node:fs';",
  },
  {
    what: 'no file that could not be looked at is taken for a missing one',
    where: /^src\/.*\.ts$/,
    wrong:
      /\b(?:l?stat|access|readFile|readdir|readlink|realpath)\(.*\)\.catch\(\(\) => (?:undefined|false|''|\[\])/,
    planted: 'const found = await stat(path).catch(() => undefined);',
  },
  {
    what: 'the lock file names no registry',
    where: /^package-lock\.json$/,
    wrong: /"resolved": "https?:/,
    planted: '      "resolved": "https://example.org/x.tgz",',
  },
];

async function files(): Promise<readonly string[]> {
  const { stdout } = await execa('git', ['ls-files'], { cwd: root });
  return stdout.split('\n');
}

const breaches = (rule: Rule, path: string, text: string) =>
  text
    .split('\n')
    .flatMap((line, index) =>
      rule.wrong.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [],
    );

describe('in the whole repository', () => {
  it.each(rules)('$what', async (rule) => {
    expect(breaches(rule, 'planted', rule.planted)).toHaveLength(1);
    const paths = (await files()).filter((path) => rule.where.test(path));
    expect(paths.length).toBeGreaterThan(0);
    const found: string[] = [];
    for (const path of paths) {
      // Deleted in the working tree, and not yet so in the index.
      const text = await readFile(join(root, path), 'utf8').catch(() => '');
      found.push(...breaches(rule, path, text));
    }
    expect(found).toEqual([]);
  });
});

describe('the documentation', () => {
  const read = (path: string) => readFile(join(root, path), 'utf8');
  const lines = (text: string) => text.trimEnd().split('\n').length;

  it('is short where it has to be', async () => {
    expect(lines(await read('README.md'))).toBeLessThanOrEqual(60);
    expect(lines(await read('CONTRIBUTING.md'))).toBeLessThanOrEqual(40);
  });

  it('has a test command in the README, and CI runs exactly that', async () => {
    const readme = await read('README.md');
    const command = /## Test\n\n```sh\n(.*)\n```/.exec(readme)?.[1];
    expect(command).toBeTruthy();
    expect(await read('.ci/run')).toContain(`bash -c '${command}' </dev/null`);
  });

  it('links only to what is there', async () => {
    const broken: string[] = [];
    for (const path of (await files()).filter((each) => each.endsWith('.md'))) {
      for (const [, target = ''] of (await read(path)).matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)) {
        if (/^\w+:/.test(target)) continue;
        const there = await access(join(root, dirname(path), target)).then(
          () => true,
          () => false,
        );
        if (!there) broken.push(`${path}: ${target}`);
      }
    }
    expect(broken).toEqual([]);
  });
});

describe('the shell scripts', () => {
  it('are whole: bash can read each to its end', async () => {
    const scripts: string[] = [];
    for (const path of await files()) {
      const text = await readFile(join(root, path), 'utf8');
      if (/^#!.*\bbash\b/.test(text)) scripts.push(path);
    }
    expect(scripts).toContain('tests/setup/machine');
    for (const path of scripts) await execa('bash', ['-n', path], { cwd: root });
  });
});

describe('the project', () => {
  it('compiles', { timeout: 300_000 }, async () => {
    // More checkers would each read all again, and other tests want the other cores.
    const { exitCode, stdout } = await execa(
      join(root, 'node_modules/.bin/tsc'),
      ['--checkers', '1'],
      { cwd: root, reject: false },
    );
    expect([stdout, exitCode]).toEqual(['', 0]);
  });

  it('is as the linter and the formatter want it', { timeout: 300_000 }, async () => {
    const biome = join(root, 'node_modules/.bin/biome');
    const { exitCode, all } = await execa(biome, ['ci', '--colors=off', '.'], {
      cwd: root,
      reject: false,
      all: true,
    });
    expect(exitCode, all).toBe(0);
  });
});
