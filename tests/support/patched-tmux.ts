import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { tmuxBinary, type Version } from './tmux-server.ts';

/** Compiles a C file of this folder into a library. Needs gcc. */
export async function library(
  directory: string,
  name: string,
  defines: Readonly<Record<string, string | number>>,
): Promise<string> {
  const path = join(directory, `${name}.so`);
  const flags = Object.entries(defines).map(([key, value]) => `-D${key}=${value}`);
  const source = join(import.meta.dirname, `${name}.c`);
  const shared = ['-shared', '-fPIC', '-nostdlib', '-O1'];
  await execa('gcc', [...shared, ...flags, '-o', path, source]);
  return path;
}

/**
 * A copy of tmux that asks for a library by itself: no wrapper and no variable in an environment, so
 * that it is there whoever runs the file, and by whatever name. Needs patchelf.
 */
export async function patchedTmux(version: Version, to: string, needed: string): Promise<void> {
  await copyFile(tmuxBinary(version) ?? '', to);
  await execa('patchelf', ['--add-needed', needed, to]);
}
