import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { InvalidMemberError } from '../members/login.ts';

/**
 * Passwords as `argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash>` (base64url). The rules of
 * today may differ from those in a stored hash: that one is checked by its own, and told outdated.
 *
 * Hashing is costly by design, so at most two run at a time, and a bounded number waits.
 */
const rules = { memory: 19 * 1024, passes: 2, parallelism: 1, tagLength: 32 } as const;
const atOnce = 2;
const mostWaiting = 40;

/** Too many passwords are being checked; nothing is known about this one. */
export class PasswordsBusyError extends Error {
  override readonly name = 'PasswordsBusyError';
  constructor() {
    super('Too many passwords are being checked at the moment. Try again in a few seconds.');
  }
}

export interface PasswordCheck {
  readonly right: boolean;
  /** Hash it again, by today's rules. */
  readonly outdated: boolean;
}

/** @throws InvalidMemberError @throws PasswordsBusyError */
export async function hashPassword(password: string): Promise<string> {
  const length = [...password].length;
  if (length < 8 || Buffer.byteLength(password) > 1_024) {
    throw new InvalidMemberError(
      'password',
      'A password has at least 8 characters, and at most 1,024 bytes.',
    );
  }
  const salt = randomBytes(16);
  const hash = await derive(password, salt, rules);
  const { memory, passes, parallelism } = rules;
  return `argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${salt.toString('base64url')}$${hash.toString('base64url')}`;
}

/**
 * @param stored null where there is no such account, or no password: as costly, and never right
 * @throws PasswordsBusyError
 */
export async function checkPassword(
  password: string,
  stored: string | null,
): Promise<PasswordCheck> {
  const read = stored === null ? undefined : parse(stored);
  if (Buffer.byteLength(password) > 1_024) return { right: false, outdated: false };
  const hash = await derive(password, read?.salt ?? nobody, read?.rules ?? rules);
  if (read === undefined) return { right: false, outdated: false };
  const { memory, passes, parallelism } = read.rules;
  return {
    right: timingSafeEqual(hash, read.hash),
    outdated:
      memory !== rules.memory || passes !== rules.passes || parallelism !== rules.parallelism,
  };
}

interface Rules {
  readonly memory: number;
  readonly passes: number;
  readonly parallelism: number;
  readonly tagLength: number;
}

const nobody = randomBytes(16);

function parse(stored: string): { rules: Rules; salt: Buffer; hash: Buffer } {
  const form = /^argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,2}),p=(\d)\$([\w-]{22})\$([\w-]{43})$/;
  const [, memory, passes, parallelism, salt = '', hash = ''] = form.exec(stored) ?? [];
  if (memory === undefined) throw new Error('a stored password hash is of no form that we know');
  return {
    rules: {
      memory: Number(memory),
      passes: Number(passes),
      parallelism: Number(parallelism),
      tagLength: 32,
    },
    salt: Buffer.from(salt, 'base64url'),
    hash: Buffer.from(hash, 'base64url'),
  };
}

const run = promisify(argon2);
let running = 0;
const waiting: (() => void)[] = [];

async function derive(password: string, nonce: Buffer, by: Rules): Promise<Buffer> {
  if (running >= atOnce) {
    if (waiting.length >= mostWaiting) throw new PasswordsBusyError();
    // Whoever ends hands its place on.
    await new Promise<void>((resolve) => waiting.push(resolve));
  } else {
    running += 1;
  }
  try {
    return await run('argon2id', { message: password.normalize('NFC'), nonce, ...by });
  } finally {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  }
}
