import {
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  randomUUID,
  timingSafeEqual,
} from 'node:crypto';
import { constants } from 'node:fs';
import { link, lstat, mkdir, open, unlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ifThere, isSystemError } from '../system-error.ts';
import { type ChainRow, canonicalText, lineOf, type SealedRow } from './row.ts';

/**
 * Who this instance is, and the key that seals its rows. Both are files of the state directory, so
 * that a copy of the database alone can neither forge a row nor continue a chain.
 *
 * `audit.key` has one key a line, `<keyId> <64 hex digits>`; the last one seals, the earlier ones
 * still verify what they sealed. A key is exchanged by adding a line.
 */

/** The audit log can't be opened; the message says what to do. */
export class AuditKeyError extends Error {
  override readonly name = 'AuditKeyError';
}

export const genesis = '0'.repeat(64);

export interface ChainKeys {
  /** The id of the key that seals new rows. */
  readonly current: string;
  /** HMAC-SHA256 as lower-case hex, or undefined when there is no such key. */
  mac(keyId: string, text: string): string | undefined;
}

export function seal(keys: ChainKeys, row: ChainRow): SealedRow {
  return sealWithLine(keys, row).row;
}

/** The row with its line of the journal, which costs nothing beside the seal. */
export function sealWithLine(
  keys: ChainKeys,
  row: ChainRow,
): { readonly row: SealedRow; readonly line: string } {
  const text = canonicalText(row);
  const hash = keys.mac(row.keyId, text);
  if (hash === undefined) throw new AuditKeyError(`There is no audit key '${row.keyId}'.`);
  return { row: { ...row, hash }, line: lineOf(text, hash) };
}

export function sameHash(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}

/** The name of this instance's chain, made at its first start. */
export async function readInstanceId(stateDir: string): Promise<string> {
  const path = join(stateDir, 'instance-id');
  await createOnce(path, () => `${randomUUID()}\n`);
  return await existingInstanceId(stateDir);
}

/** The same where it was made before. @throws AuditKeyError, also where it was not */
export async function existingInstanceId(stateDir: string): Promise<string> {
  const path = join(stateDir, 'instance-id');
  const text = (
    await readPrivate(
      path,
      'no service has run with this state directory. Set MUXWARDEN_STATE_DIR, or put the file back from a backup.',
    )
  ).trim();
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text))
    throw new AuditKeyError(
      `${path} does not hold a UUID. Put the copy from a backup back; a new name would begin another audit chain.`,
    );
  return text;
}

export async function readChainKeys(stateDir: string): Promise<ChainKeys> {
  await createOnce(join(stateDir, 'audit.key'), () => {
    return `${randomBytes(4).toString('hex')} ${randomBytes(32).toString('hex')}\n`;
  });
  return await existingChainKeys(stateDir);
}

/** The same where they were made before. @throws AuditKeyError, also where they were not */
export async function existingChainKeys(stateDir: string): Promise<ChainKeys> {
  const path = join(stateDir, 'audit.key');
  const text = await readPrivate(
    path,
    `without it nobody can tell which rows are true. Put the copy from a backup back. Where there is none, move instance-id and audit out of ${stateDir}: then another chain begins, and the rows of this one can't be verified any more.`,
  );
  return parseChainKeys(text, path);
}

export function parseChainKeys(text: string, path = 'audit.key'): ChainKeys {
  const keys = new Map<string, KeyObject>();
  let current: string | undefined;
  for (const line of text.split('\n').filter(Boolean)) {
    const [, keyId, secret] = /^([0-9a-z-]{1,40}) ([0-9a-f]{64})$/.exec(line) ?? [];
    if (keyId === undefined || secret === undefined || keys.has(keyId))
      throw new AuditKeyError(
        `${path} needs lines of '<key id> <64 hex digits>', each id once. Put the copy from a backup back.`,
      );
    keys.set(keyId, createSecretKey(secret, 'hex'));
    current = keyId;
  }
  if (current === undefined)
    throw new AuditKeyError(`${path} is empty. Put the copy from a backup back.`);
  return {
    current,
    mac(keyId, message) {
      const key = keys.get(keyId);
      return key && createHmac('sha256', key).update(message).digest('hex');
    },
  };
}

/** Makes the file where there is none, under its name only once it is whole. */
async function createOnce(path: string, first: () => string): Promise<void> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  if ((await ifThere(lstat(path))) !== undefined) return;
  const whole = `${path}.${randomUUID()}`;
  await writeFile(whole, first(), { mode: 0o600, flag: 'wx', flush: true });
  // A second process at the same moment: the first name stands, and both read it.
  await link(whole, path).catch((error: unknown) => {
    if (!isSystemError(error, 'EEXIST')) throw error;
  });
  await unlink(whole);
  await syncDirectory(directory);
}

/** Refuses a file that others can read: what it protects would be worth nothing. */
async function readPrivate(path: string, ifMissing: string): Promise<string> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(
    (cause: unknown) => {
      if (!isSystemError(cause, 'ENOENT')) throw cause;
      throw new AuditKeyError(`There is no ${path}: ${ifMissing}`, { cause });
    },
  );
  const status = await file.stat();
  if (!status.isFile() || (status.mode & 0o077) !== 0 || status.uid !== process.geteuid?.())
    throw new AuditKeyError(
      `${path} must be a file of this service's user that nobody else can read. Look who changed it, then 'chmod 600 ${path}'.`,
    );
  return await file.readFile('utf8');
}

/** Makes a new name in the directory last over a power cut. */
export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await directory.sync();
}
