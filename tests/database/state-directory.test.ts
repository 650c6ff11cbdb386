import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import {
  openStateDirectory,
  StateDirectoryError,
  StateDirectoryHeldError,
} from '../../src/database/state-directory.ts';
import { startChild } from '../support/child.ts';
import { scratchDirectory } from '../support/scratch.ts';

const modeOf = async (path: string) => ((await stat(path)).mode & 0o7777).toString(8);

const holding = (path: string, purpose: string, forMs = 0) => `
  const { openStateDirectory } = await import(root + 'src/database/state-directory.ts');
  const held = await openStateDirectory({ stateDir: ${JSON.stringify(path)} }, { purpose: '${purpose}' });
  if (${forMs} > 0) setTimeout(() => held[Symbol.asyncDispose](), ${forMs});
  console.log('held');`;

it('is made with mode 0700, and an empty one that is open to others is closed', async () => {
  await using scratch = await scratchDirectory();
  await using made = await openStateDirectory({ stateDir: join(scratch.path, 'a/b/state') });
  expect(await modeOf(made.path)).toBe('700');
  const open = join(scratch.path, 'open');
  await mkdir(open);
  await chmod(open, 0o755);
  await using closed = await openStateDirectory({ stateDir: open });
  expect(await modeOf(closed.path)).toBe('700');
});

it('refuses a directory that others can enter and that holds other things, and leaves it alone', async () => {
  await using scratch = await scratchDirectory();
  await chmod(scratch.path, 0o1777);
  await writeFile(join(scratch.path, 'something'), '');
  await expect(openStateDirectory({ stateDir: scratch.path })).rejects.toThrow(
    /open to other users.*MUXWARDEN_STATE_DIR/,
  );
  expect(await modeOf(scratch.path)).toBe('1777');
});

it('says what to do where no directory can be', async () => {
  await using scratch = await scratchDirectory();
  const file = join(scratch.path, 'file');
  await writeFile(file, '');
  const refused = openStateDirectory({ stateDir: join(file, 'state') });
  await expect(refused).rejects.toBeInstanceOf(StateDirectoryError);
  await expect(refused).rejects.toThrow(/MUXWARDEN_STATE_DIR/);
});

it('is held by one process, which the refusal names; its death, even as a zombie, frees it', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = join(scratch.path, 'state');
  await using child = await startChild(holding(stateDir, 'service'));
  expect(await child.line()).toBe('held');
  const refused = await openStateDirectory({ stateDir }).catch((error) => error);
  expect(refused).toBeInstanceOf(StateDirectoryHeldError);
  expect(refused.holder).toEqual({ pid: child.pid, purpose: 'service' });
  expect(refused.message).toContain(`process ${child.pid}`);
  expect(refused.message).toContain(stateDir);
  await child.kill('SIGKILL');
  await using mine = await openStateDirectory({ stateDir });
  expect(JSON.parse(await readFile(join(mine.path, 'lock'), 'utf8')).pid).toBe(process.pid);
});

it('is waited for while a command has it, and not while a service has it', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = join(scratch.path, 'state');
  await using child = await startChild(holding(stateDir, 'command', 400));
  await child.line();
  await using mine = await openStateDirectory({ stateDir }, { waitMs: 20_000 });
  expect(mine.path).toBe(stateDir);
  await expect(openStateDirectory({ stateDir }, { waitMs: 20_000 })).rejects.toThrow(
    String(process.pid),
  );
});

it('goes to exactly one of many that come at once, round after round', async () => {
  await using scratch = await scratchDirectory();
  const stateDir = join(scratch.path, 'state');
  for (let round = 0; round < 5; round += 1) {
    const results = await Promise.allSettled(
      Array.from({ length: 8 }, () => openStateDirectory({ stateDir }, { waitMs: 0 })),
    );
    const won = results.filter((result) => result.status === 'fulfilled');
    expect(won).toHaveLength(1);
    await won[0]?.value[Symbol.asyncDispose]();
    await pause(1);
  }
});
