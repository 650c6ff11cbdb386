import { lstat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { chainFiles } from '../src/audit/inspection.ts';
import { runningService } from '../src/server/service-record.ts';
import { ifThere } from '../src/system-error.ts';
import { scratchDirectory } from './support/scratch.ts';

it('takes a missing file alone for a missing file', async () => {
  await using folder = await scratchDirectory();
  const at = (name: string) => join(folder.path, name);
  await symlink('loop', at('loop'));
  expect(await ifThere(lstat(at('none')))).toBeUndefined();
  expect(await ifThere(lstat(at('none/below')))).toBeUndefined();
  expect((await ifThere(lstat(at('loop'))))?.isSymbolicLink()).toBe(true);
  await expect(ifThere(lstat(at('loop/below')))).rejects.toThrow(/^ELOOP/);
  await expect(ifThere(lstat(at('x'.repeat(300))))).rejects.toThrow(/^ENAMETOOLONG/);
  // What it is used for: no service, and no chain of commands, are said of an empty folder alone.
  expect(await runningService(folder.path)).toBeUndefined();
  await expect(runningService(at('loop'))).rejects.toThrow(/^ELOOP/);
  await symlink('commands', at('commands'));
  await expect(chainFiles(folder.path)).rejects.toThrow(/^ELOOP/);
});
