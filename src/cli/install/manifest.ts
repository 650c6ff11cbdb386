import { readFile, rm } from 'node:fs/promises';
import { z } from 'zod';
import { writeFileDurably } from '../../durable-file.ts';
import { jsonText } from '../../json-text.ts';
import { CommandError } from '../command.ts';
import { manifestFile } from './places.ts';
import { keyOf, type Made } from './step.ts';

/**
 * What install-system made, in the order in which it was made. It is written before each thing is, so
 * a run that was killed is taken up again, or taken away, by the next.
 */
const made = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['group', 'account']), name: z.string() }),
  z.object({ kind: z.enum(['directory', 'tree', 'state', 'hooks']), path: z.string() }),
  z.object({ kind: z.enum(['file', 'settings']), path: z.string(), sha256: z.string() }),
]);
const shape = jsonText.pipe(z.object({ made: z.array(made) }));

/** @throws CommandError when it can't be read as what it is */
export async function readManifest(): Promise<readonly Made[]> {
  const text = await readFile(manifestFile, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return '{"made":[]}';
    throw cause;
  });
  const read = shape.safeParse(text);
  if (read.success) return read.data.made;
  throw new CommandError(
    `${manifestFile} is not what install-system wrote. Restore it, or move it away together with what it lists.`,
  );
}

export async function writeManifest(entries: readonly Made[]): Promise<void> {
  if (entries.length === 0) return rm(manifestFile, { force: true });
  await writeFileDurably(manifestFile, `${JSON.stringify({ made: entries }, null, 1)}\n`, 0o644);
}

export const withoutEntry = (entries: readonly Made[], entry: Made): readonly Made[] =>
  entries.filter((each) => keyOf(each) !== keyOf(entry));

/** In its place, or as the last. */
export function withEntry(entries: readonly Made[], entry: Made): readonly Made[] {
  const at = entries.findIndex((each) => keyOf(each) === keyOf(entry));
  return at < 0 ? [...entries, entry] : entries.with(at, entry);
}
