import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { jsonText } from '../json-text.ts';
import { isSystemError } from '../system-error.ts';
import { type ChainKeys, sameHash, syncDirectory } from './chain-key.ts';

/**
 * The head of a chain, noted outside of journal and table every 100 rows or 60 s: a chain that is
 * shorter than its head, or has another row there, was cut or replaced by an older copy. Each head
 * also goes to the log, so that it leaves the reach of whoever owns the files.
 */
export interface ChainHead {
  readonly chain: string;
  readonly sequence: number;
  readonly hash: string;
  readonly at: Date;
}

const file = z.strictObject({
  chain: z.string(),
  sequence: z.int(),
  hash: z.string(),
  at: z.iso.datetime(),
  keyId: z.string(),
  mac: z.string(),
});

/** A power cut may bring the head before it back: that one asks for less, and never for what is not there. */
export async function writeHead(stateDir: string, keys: ChainKeys, head: ChainHead): Promise<void> {
  const path = join(stateDir, 'audit/head.json');
  const next = `${path}.next`;
  await writeFile(next, `${headLine(keys, head)}\n`, { mode: 0o600, flush: true });
  await rename(next, path);
}

/** The sealed text of a head, without LF. */
export function headLine(keys: ChainKeys, { chain, sequence, hash, at }: ChainHead): string {
  const said = { chain, sequence, hash, at: at.toISOString(), keyId: keys.current };
  return JSON.stringify({ ...said, mac: keys.mac(keys.current, JSON.stringify(said)) });
}

/** All heads that were noted: the present one, and those that were kept because they did not fit. */
export async function readHeads(
  stateDir: string,
  keys: ChainKeys,
): Promise<{ readonly heads: readonly ChainHead[]; readonly damaged: readonly string[] }> {
  const directory = join(stateDir, 'audit');
  const names = await readdir(directory).catch((error: unknown) => {
    if (isSystemError(error, 'ENOENT', 'ENOTDIR')) return [];
    throw error;
  });
  const heads: ChainHead[] = [];
  const damaged: string[] = [];
  for (const name of names.filter((each) => /^head(-\d+)?\.json$/.test(each)).sort()) {
    const path = join(directory, name);
    const head = parseHead((await readFile(path, 'utf8')).replace(/\n$/, ''), keys);
    if (head) heads.push(head);
    else damaged.push(path);
  }
  return { heads, damaged };
}

/** The head in a line of the log of the service, or of head.json, taken as it is. */
export function loggedHead(line: string): ChainHead | undefined {
  const { data } = logged.safeParse(line);
  return data && { ...data, at: new Date(data.at) };
}

const logged = jsonText.pipe(
  file.pick({ chain: true, sequence: true, hash: true, at: true }).strip(),
);

/** Keeps a head that contradicts the chain, so that the next one does not replace the evidence. */
export async function keepHead(stateDir: string): Promise<void> {
  const directory = join(stateDir, 'audit');
  await rename(join(directory, 'head.json'), join(directory, `head-${Date.now()}.json`));
  await syncDirectory(directory);
}

/** The head that `headLine` wrote, by one of the keys; undefined for any other text. */
export function parseHead(text: string, keys: ChainKeys): ChainHead | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { data } = file.safeParse(value);
  if (data === undefined || JSON.stringify(data) !== text) return undefined;
  const { mac, ...said } = data;
  const right = keys.mac(said.keyId, JSON.stringify(said));
  if (right === undefined || !sameHash(right, mac)) return undefined;
  return { ...said, at: new Date(said.at) };
}
