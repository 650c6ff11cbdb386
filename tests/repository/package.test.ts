import { chmod, cp, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/tmux-server.ts';

/** The package, as `npm pack` makes it and a global install of it runs. */

const root = join(import.meta.dirname, '../..');
// As npm would be called by hand: the Node of this project is not on the PATH.
const machinePath = (process.env.PATH ?? '')
  .split(':')
  .filter((directory) => !directory.includes('node_modules'))
  .join(':');
const asRoot = process.getuid?.() === 0;
// An account that every Linux has and that owns nothing.
const nobody = asRoot ? { uid: 65_534, gid: 65_534 } : {};

let folder: string;
let prefix: string;
let packed: readonly string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mw-package-'));
  await chmod(folder, 0o755);
  const copy = join(folder, 'copy');
  prefix = join(folder, 'prefix');
  const parts = [
    'bin',
    'src',
    'libexec',
    'migrations',
    'package.json',
    'schema.graphql',
    'LICENSE',
  ];
  for (const part of [
    ...parts,
    'README.md',
    'tsconfig.json',
    'tsconfig.build.json',
    '.npmrc',
    'tests/setup',
  ]) {
    await cp(join(root, part), join(copy, part), { recursive: true });
  }
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'));
  const npm = (...argv: string[]) =>
    execa('npm', argv, { cwd: copy, env: { PATH: machinePath }, stdin: 'ignore' });
  await npm('pack', '--pack-destination', folder);
  const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz')) ?? '';
  const listed = await execa('tar', ['tzf', join(folder, archive)]);
  packed = listed.stdout.split('\n').map((path) => path.replace(/^package\//, ''));
  const global = ['install', '--global', '--prefix', prefix, '--prefer-offline'];
  await npm(...global, join(folder, archive));
}, 240_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

const installed = (argv: readonly string[], home: string, path = machinePath) =>
  execa(join(prefix, 'bin/muxwarden'), argv, {
    ...nobody,
    cwd: '/',
    extendEnv: false,
    env: { PATH: path, HOME: home, MUXWARDEN_PORT: '0', MUXWARDEN_STATE_DIR: join(home, 'state') },
    stdin: 'ignore',
    reject: false,
    forceKillAfterDelay: 15_000,
  });

async function homeOfNobody(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'mw-home-'));
  if (asRoot) await execa('chown', ['65534:65534', home]);
  return home;
}

describe('the package', () => {
  it('has what runs and nothing else', () => {
    for (const path of [
      'bin/muxwarden.js',
      'dist/cli.js',
      'libexec/muxwarden-member',
      'schema.graphql',
      'README.md',
      'LICENSE',
    ]) {
      expect(packed).toContain(path);
    }
    expect(packed.some((path) => /^migrations\/.*\.sql$/.test(path))).toBe(true);
    const others = packed.filter(
      (path) => !/^(bin|dist|libexec|migrations)\//.test(path) && path.includes('/'),
    );
    expect(others).toEqual([]);
  });

  it('installed globally, prints its help and its schema for an ordinary user', async () => {
    const home = await homeOfNobody();
    const help = await installed(['--help'], home);
    expect([help.exitCode, help.stderr]).toEqual([0, '']);
    for (const command of ['serve', 'members', 'keys', 'login', 'doctor', 'schema', 'migrate']) {
      expect(help.stdout).toContain(command);
    }
    const schema = await installed(['schema'], home);
    expect(schema.exitCode).toBe(0);
    expect(schema.stdout).toContain('type Query');
    await rm(home, { recursive: true });
  });

  it('installed globally, serves for an ordinary user, and ends on SIGTERM', async () => {
    const home = await homeOfNobody();
    const service = installed(['serve'], home);
    let output = '';
    for (const stream of [service.stdout, service.stderr]) {
      stream.on('data', (text) => {
        output += String(text);
      });
    }
    let ended = false;
    const exit = service.then((result) => {
      ended = true;
      return result;
    });
    try {
      const url = await eventually(
        () => {
          if (ended) throw new Error(`it ended: ${output}`);
          return /http:\/\/[\w.]+:\d+/.exec(output)?.[0];
        },
        'it prints its address',
        45_000,
      );
      expect((await fetch(`${url}/health`)).status).toBe(200);
      service.kill('SIGTERM');
      const { exitCode, signal } = await exit;
      expect([exitCode, signal]).toEqual([0, undefined]);
    } finally {
      service.kill('SIGKILL');
      await rm(home, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});
