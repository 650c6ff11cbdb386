import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

/** Each boundary is shown to be one: the linter is red for a planted fault and green without it. */

const root = join(import.meta.dirname, '../..');
const rule = 'lint/style/noRestrictedImports';

const folders = [
  'concurrency',
  'database',
  'tmux',
  'audit',
  'members',
  'auth',
  'resolvers',
  'schema',
  'server',
  'cli',
] as const;
const domain = ['tmux', 'audit', 'members', 'auth'] as const;
const ground = ['concurrency', 'database'] as const;

/** What a folder may import; everything else is refused. */
const allowed: Readonly<Record<(typeof folders)[number], readonly string[]>> = {
  concurrency: [],
  database: ['concurrency'],
  tmux: ['concurrency'],
  audit: [...ground, 'tmux', 'members', 'auth'],
  members: [...ground, 'tmux', 'audit', 'auth'],
  auth: [...ground, 'tmux', 'audit', 'members'],
  resolvers: [...ground, ...domain],
  schema: [...ground, ...domain, 'resolvers'],
  server: [...ground, ...domain, 'resolvers', 'schema'],
  cli: [...ground, ...domain, 'resolvers', 'schema', 'server'],
};

const reportShape = z.object({
  diagnostics: z.array(
    z.object({ category: z.string(), location: z.object({ path: z.string() }) }),
  ),
});

/** Lints these files alone, by the project's own rules; gives `path rule` for each fault found. */
async function faults(files: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const copy = await mkdtemp(join(tmpdir(), 'mw-layers-'));
  try {
    await cp(join(root, 'biome.json'), join(copy, 'biome.json'));
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(copy, path)), { recursive: true });
      await writeFile(join(copy, path), text);
    }
    const result = await execa(
      join(root, 'node_modules/.bin/biome'),
      ['lint', '--vcs-enabled=false', '--reporter=json', '--max-diagnostics=none', 'src'],
      { cwd: copy, reject: false },
    );
    const json = result.stdout.slice(result.stdout.indexOf('{'));
    const found = reportShape
      .parse(JSON.parse(json))
      .diagnostics.map(({ category, location }) => `${location.path} ${category}`);
    expect(result.exitCode !== 0, result.stderr).toBe(found.length > 0);
    return found.sort();
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

const importing = (path: string, name = 'thing') =>
  `import { ${name} } from '${path}';\nexport const used = ${name};\n`;
const typed = (path: string) =>
  `import type { Thing } from '${path}';\nexport type Used = Thing | null;\n`;

describe('imports', () => {
  it('go down only, for each pair of folders', async () => {
    const files: Record<string, string> = {};
    const refused: string[] = [];
    for (const folder of folders) {
      files[`src/${folder}/there.ts`] = 'export const thing = 1;\n';
      for (const other of folders.filter((name) => name !== folder)) {
        const path = `src/${folder}/with-${other}.ts`;
        files[path] = importing(`../${other}/there.ts`);
        if (!allowed[folder].includes(other)) refused.push(`${path} ${rule}`);
      }
    }
    expect(refused.length).toBe(43);
    expect(await faults(files)).toEqual(refused.sort());
  });

  it('count as well when they import a type, or from a deeper folder', async () => {
    const files = { 'src/tmux/deep/here.ts': typed('../../server/there.ts') };
    expect(await faults(files)).toEqual([`src/tmux/deep/here.ts ${rule}`]);
  });

  it('never lead from below to an entry point, nor from the configuration upwards', async () => {
    const files = {
      'src/server/here.ts': importing('../main.ts'),
      'src/auth/here.ts': importing('../cli.ts'),
      'src/config.ts': importing('./database/there.ts'),
    };
    expect(await faults(files)).toEqual(
      Object.keys(files)
        .map((path) => `${path} ${rule}`)
        .sort(),
    );
  });

  it('keep GraphQL out of tmux and of the resolvers', async () => {
    const files: Record<string, string> = { 'src/schema/here.ts': importing('graphql') };
    const refused: string[] = [];
    for (const [index, name] of ['graphql', 'graphql-yoga', '@pothos/core'].entries()) {
      for (const folder of ['tmux', 'resolvers']) {
        files[`src/${folder}/here-${index}.ts`] = importing(name);
        refused.push(`src/${folder}/here-${index}.ts ${rule}`);
      }
    }
    expect(await faults(files)).toEqual(refused.sort());
  });

  it('form no cycle, also not through types', async () => {
    const cycle = 'lint/suspicious/noImportCycles';
    const files = {
      'src/tmux/a.ts': `import { two } from './b.ts';\nexport const one = () => two();\n`,
      'src/tmux/b.ts': `import { one } from './a.ts';\nexport const two = (): unknown => one;\n`,
      'src/tmux/c.ts': `import type { D } from './d.ts';\nexport type C = D | null;\n`,
      'src/tmux/d.ts': `import type { C } from './c.ts';\nexport type D = { next: C };\n`,
    };
    expect(await faults(files)).toEqual([
      `src/tmux/a.ts ${cycle}`,
      `src/tmux/b.ts ${cycle}`,
      `src/tmux/c.ts ${cycle}`,
      `src/tmux/d.ts ${cycle}`,
    ]);
  });
});

describe('the tables of the audit', () => {
  const path = '../database/tables.ts';
  const others = ['members', 'auth', 'resolvers', 'schema', 'server', 'cli'];

  it('are closed to everybody else, by whatever form of import', async () => {
    const files: Record<string, string> = {};
    for (const folder of others) {
      files[`src/${folder}/events.ts`] = importing(path, 'auditEvents');
      files[`src/${folder}/keys.ts`] = importing(path, 'idempotencyKeys');
      files[`src/${folder}/all.ts`] = `import * as used from '${path}';\nexport { used };\n`;
      files[`src/${folder}/later.ts`] =
        `const { auditEvents } = await import('${path}');\nexport const used = auditEvents;\n`;
    }
    const refused = Object.keys(files).map((file) => `${file} ${rule}`);
    expect(await faults(files)).toEqual(refused.sort());
  });

  it('are open to audit, and the others to everybody who may import the database', async () => {
    const files: Record<string, string> = {
      'src/audit/here.ts': importing(path, 'auditEvents'),
    };
    for (const folder of others) files[`src/${folder}/here.ts`] = importing(path, 'members');
    expect(await faults(files)).toEqual([]);
  });
});

describe('the linter is red for', () => {
  it.each([
    ['a floating promise', 'lint/nursery/noFloatingPromises', 'later();'],
    ['any', 'lint/suspicious/noExplicitAny', 'export const a: any = 1;'],
    [
      'an assertion that something is there',
      'lint/style/noNonNullAssertion',
      'export const a = [1][0]!;',
    ],
    ['a debugger statement', 'lint/suspicious/noDebugger', 'debugger;'],
  ])('%s', async (_name, broken, line) => {
    const text = `export async function later(): Promise<void> {}\n${line}\n`;
    expect(await faults({ 'src/tmux/a.ts': text })).toEqual([`src/tmux/a.ts ${broken}`]);
  });
});
