import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, startTicks } from '../support/tmux-server.ts';

/** bin/muxwarden.js under the Node of the machine, with a command of our own behind it. */

const root = join(import.meta.dirname, '../..');
let folder: string;

const command = `
  const [word, ...rest] = process.argv.slice(2) as string[];
  if (word === 'wait') {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => { console.log(signal); process.exit(7); });
    }
    setInterval(() => {}, 1_000);
    console.log(process.pid);
  } else {
    const { pid, ppid, execArgv, versions } = process;
    console.log(JSON.stringify({ version: versions.node, rest, execArgv, pids: [pid, ppid] }));
    process.exitCode = 3;
  }
`;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mw-command-'));
  await mkdir(join(folder, 'src'));
  await cp(join(root, 'bin'), join(folder, 'bin'), { recursive: true });
  await cp(join(root, 'package.json'), join(folder, 'package.json'));
  await writeFile(join(folder, 'src/cli.ts'), command);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function withModules(): Promise<void> {
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules')).catch(() => undefined);
}

/** The Node that comes first without npm's folders. */
async function machineNode(): Promise<{ file: string; old: boolean }> {
  const path = (process.env.PATH ?? '').split(':').filter((each) => !each.includes('node_modules'));
  const { stdout } = await execa('sh', ['-c', 'command -v node && node -p process.versions.node'], {
    env: { PATH: path.join(':') },
  });
  const [file = '', version = ''] = stdout.split('\n');
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return { file, old: major < 24 || (major === 24 && minor < 7) };
}

describe('bin/muxwarden.js', async () => {
  const { file, old } = await machineNode();
  const run = (...argv: string[]) =>
    execa(file, [join(folder, 'bin/muxwarden.js'), ...argv], { reject: false, stdin: 'ignore' });

  it('says in one sentence what to do where no Node is new enough', async () => {
    await rm(join(folder, 'node_modules'), { force: true });
    const { exitCode, stdout, stderr } = await run('words');
    if (!old) expect([exitCode, stdout]).toEqual([3, expect.stringContaining('version')]);
    else {
      expect([exitCode, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^muxwarden needs Node\.js 24\.7 or newer and this is [^\n]+\.$/);
    }
  });

  it('runs the sources of a clone by Node 24.7 or newer, whatever the machine has', async () => {
    await withModules();
    const { exitCode, stdout, stderr } = await run('words', 'a b', '--c', '');
    expect([exitCode, stderr]).toEqual([3, '']);
    const { version, rest } = JSON.parse(stdout);
    expect(rest).toEqual(['a b', '--c', '']);
    expect(Number(version.split('.')[0])).toBeGreaterThanOrEqual(24);
  });

  it('serves in a bounded space for young objects, as the process that was started or its child', async () => {
    await withModules();
    const running = run('serve', 'a b', '');
    const { stdout, stderr } = await running;
    const { rest, execArgv, pids } = JSON.parse(stdout);
    expect([rest, execArgv, stderr]).toEqual([['a b', ''], ['--max-semi-space-size=16'], '']);
    expect(pids).toContain(running.pid);
  });

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'passes %s on and the exit status back',
    async (signal) => {
      await withModules();
      const running = run('wait');
      await eventually(
        () => new Promise((resolve) => running.stdout.once('data', resolve)),
        'it runs',
      );
      running.kill(signal);
      const { exitCode, stdout } = await running;
      expect([exitCode, stdout.split('\n')[1]]).toEqual([7, signal]);
    },
  );

  it('leaves nothing behind when it is killed', async () => {
    await withModules();
    const running = run('wait');
    const said = await eventually(
      () => new Promise((resolve) => running.stdout.once('data', resolve)),
      'it runs',
    );
    running.kill('SIGKILL');
    await running;
    await eventually(
      async () => (await startTicks(Number(String(said)))) === undefined,
      'what it started is gone',
    );
  });
});
