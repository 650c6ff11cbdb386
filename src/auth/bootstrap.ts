import { createHash } from 'node:crypto';
import { chmod, lstat, readFile } from 'node:fs/promises';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import type { Database } from '../database/database.ts';
import { writeFileDurably } from '../durable-file.ts';
import { loginFor } from '../members/login.ts';
import type { Member } from '../members/member.ts';
import { Members } from '../members/members.ts';
import { parseKey } from './api-key.ts';
import { ApiKeys, hasEnded } from './api-keys.ts';
import { hashOf, sameHash } from './secret.ts';
import { scopes as allScopes } from './viewer.ts';

/**
 * What a first start makes: an ADMIN for the user who runs the service, and `admin.key` in the state
 * directory, a key of that member with every scope. The file always holds a key that works: when it
 * is missing, or its key does not, another is made and the one that this directory had is revoked.
 * Processes that share a database share the member; each state directory has a key of its own.
 */
export interface Bootstrapped {
  readonly member: Member;
  /** Null: the member was disabled or is no ADMIN any more, by somebody's decision; so no key. */
  readonly adminKeyFile: string | null;
  readonly madeKey: boolean;
}

/** Only for who holds the state directory's lock; after `migrate`. */
export async function bootstrap(
  database: Database,
  config: Pick<Config, 'stateDir' | 'mode'>,
  osUser: string = ownUser(),
): Promise<Bootstrapped> {
  const member = await ensureAdmin(database, config, osUser);
  const file = join(config.stateDir, 'admin.key');
  if (member.disabled || member.role !== 'ADMIN') {
    return { member, adminKeyFile: null, madeKey: false };
  }
  const keys = new ApiKeys(database);
  if (await works(keys, file, member)) return { member, adminKeyFile: file, madeKey: false };
  const name = keyName(config.stateDir);
  await keys.revokeNamed(member.id, name);
  const { key } = await keys.create({
    memberId: member.id,
    name,
    scopes: allScopes,
    memberIds: null,
    expiresAt: null,
    madeByAdmin: true,
  });
  await writeFileDurably(file, `${key}\n`, 0o600);
  return { member, adminKeyFile: file, madeKey: true };
}

/** The login name of this process's user, as the system knows it. */
export function ownUser(): string {
  try {
    return userInfo().username;
  } catch {
    // A user id without an account, as in many containers.
    return `uid-${process.geteuid?.()}`;
  }
}

/** The member that stands for the user who runs the service, made when there is none. */
async function ensureAdmin(
  database: Database,
  { mode }: Pick<Config, 'mode'>,
  osUser: string,
): Promise<Member> {
  const client = await database.connect();
  try {
    // Services that start together take turns.
    await client.query(`select pg_advisory_lock(hashtext('muxwarden bootstrap'))`);
    const members = new Members(database);
    const all = await members.list();
    const wanted = loginFor(osUser);
    const own =
      mode === 'local'
        ? all.find((member) => member.osUser === osUser)
        : all.find((member) => member.login === wanted && member.osUser === null);
    if (own !== undefined) return own;
    const taken = new Set(all.map(({ login }) => login));
    return await members.add({
      login: freeLogin(wanted, taken),
      role: 'ADMIN',
      // In system mode the service's own user is nobody's: members come by `members add --os-user`.
      osUser: mode === 'local' ? osUser : null,
    });
  } finally {
    await client.end();
  }
}

function freeLogin(wanted: string, taken: ReadonlySet<string>): string {
  for (let number = 2, login = wanted; ; number += 1) {
    if (!taken.has(login)) return login;
    login = `${wanted.slice(0, 27)}-${number}`;
  }
}

async function works(keys: ApiKeys, file: string, member: Member): Promise<boolean> {
  const stat = await lstat(file).catch((cause) => {
    if (cause.code === 'ENOENT') return undefined;
    throw cause;
  });
  if (!stat?.isFile()) return false;
  // Others may have read it: no longer a secret.
  if ((stat.mode & 0o077) !== 0) return chmod(file, 0o600).then(() => false);
  const text = parseKey((await readFile(file, 'utf8')).trim());
  const key = text && (await keys.byPublicId(text.publicId));
  return (
    key !== undefined &&
    sameHash(hashOf(text?.secret ?? ''), key.secretHash) &&
    key.memberId === member.id &&
    key.madeByAdmin &&
    !hasEnded(key) &&
    key.memberIds === null &&
    allScopes.every((scope) => key.scopes.includes(scope))
  );
}

function keyName(stateDir: string): string {
  const name = `admin.key of ${hostname()}:${stateDir}`;
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 16);
  return name.length <= 100 ? name : `${name.slice(0, 80)} ${digest}`;
}
