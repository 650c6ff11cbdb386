import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { jsonText } from './json-text.ts';

/** The version of this program, as its package says. */
export async function ownVersion(): Promise<string> {
  const text = await readFile(join(import.meta.dirname, '../package.json'), 'utf8');
  return jsonText.pipe(z.object({ version: z.string() })).parse(text).version;
}
