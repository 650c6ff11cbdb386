import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Child, startChild } from './child.ts';

/** The service in local mode, with a state folder of its own. */
export interface Service extends Child {
  readonly key: string;
}

const command = join(import.meta.dirname, '../bin/muxwarden.js');

export async function startService(
  stateDir: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Service> {
  const child = await startChild([command, 'serve'], {
    MUXWARDEN_PORT: '0',
    MUXWARDEN_STATE_DIR: stateDir,
    MUXWARDEN_SOCKET_DIRS: join(stateDir, 'tmux'),
    ...environment,
  });
  return { ...child, key: await keyOf(stateDir) };
}

export async function keyOf(stateDir: string): Promise<string> {
  return (await readFile(join(stateDir, 'admin.key'), 'utf8')).trim();
}

/** A private folder, removed at the end. */
export async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'mw-bench-'));
  return {
    path,
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true, maxRetries: 5 }),
  };
}
