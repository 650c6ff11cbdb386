import type { ApiKey } from '../auth/accounts.ts';
import { isKeyName, keyNameRule } from '../auth/api-key.ts';
import { ApiKeys, hasEnded } from '../auth/api-keys.ts';
import { scopes } from '../auth/viewer.ts';
import { readConfig } from '../config.ts';
import type { Database } from '../database/database.ts';
import { Members } from '../members/members.ts';
import {
  type Command,
  CommandError,
  exactly,
  group,
  oneOf,
  readWords,
  UsageError,
} from './command.ts';
import { expiryOf } from './expiry.ts';
import { withRecord } from './on-record.ts';
import { memberNamed, ownMember } from './own-member.ts';
import { isoMinute, table } from './table.ts';
import { withDatabase } from './with-database.ts';

const create: Command = {
  summary: 'make a key and print it once',
  help: `muxwarden keys create NAME [--owner LOGIN] [--scopes LIST] [--members LIST] [--expires WHEN]

Makes a key for scripts and dashboards and prints it; it can't be shown again. A key can do no more
than its owner. Use it as \`Authorization: Bearer KEY\`.

  --owner LOGIN    whose key it is (default: the member of the Linux user who runs this)
  --scopes LIST    of ${scopes.join(', ')} (default READ)
                   READ: listings. STREAM: what is on screens. ACT: restart panes.
                   RESTART: restart and repair servers, without a password. ADMIN: the service itself
  --members LIST   logins of the members that it may touch (default: all that its owner may)
  --expires WHEN   30d, 12h, 4w or a date (default: never)`,
  async run(words, io) {
    const { values, positionals } = readWords(words, {
      owner: { type: 'string' },
      scopes: { type: 'string', multiple: true, default: ['READ'] },
      members: { type: 'string', multiple: true },
      expires: { type: 'string' },
    });
    const [name] = exactly(positionals, 'NAME');
    if (!isKeyName(name.trim())) throw new UsageError(`NAME has ${keyNameRule}.`);
    const wanted = wordsOf(values.scopes).map((word) => oneOf('--scopes', word, scopes));
    const expiresAt = values.expires === undefined ? null : expiryOf(values.expires);
    const config = readConfig(io.environment);
    const key = await withRecord(config, io, async (database, onRecord) => {
      const all = await new Members(database).list();
      const owner =
        values.owner === undefined
          ? ownMember(all, config, 'Say whose key it is: --owner LOGIN.')
          : memberNamed(all, values.owner);
      const touched =
        values.members && wordsOf(values.members).map((login) => memberNamed(all, login).id);
      const made = await onRecord(
        {
          ...{ command: 'keys create', action: 'CREATE_API_KEY', memberId: owner.id },
          label: `${owner.login}: ${name}`,
          facts: { ...factsOf({ scopes: wanted, memberIds: touched ?? null, expiresAt }) },
        },
        () =>
          new ApiKeys(database).create({
            memberId: owner.id,
            name,
            scopes: wanted,
            memberIds: touched ?? null,
            expiresAt,
            // Who can open the state directory or the database has admin.key as well.
            madeByAdmin: true,
          }),
      );
      io.note(
        `Key ${made.apiKey.publicId} of ${owner.login}: ${wanted.join(', ')}; ${lifeOf(expiresAt)}. It is shown this once:`,
      );
      return made.key;
    });
    io.out(key);
    return 0;
  },
};

const list: Command = {
  summary: 'show the keys, never their secrets',
  help: `muxwarden keys list [--json]

Shows every key, oldest first.

  --json   one JSON object a line`,
  async run(words, io) {
    const { values, positionals } = readWords(words, { json: { type: 'boolean', default: false } });
    exactly(positionals);
    const { keys, logins } = await withDatabase(readConfig(io.environment), async (database) => ({
      keys: await new ApiKeys(database).list(),
      logins: new Map(
        (await new Members(database).list()).map(({ id, login }) => [id, login] as const),
      ),
    }));
    const login = (id: string) => logins.get(id) ?? '(deleted)';
    if (values.json) {
      for (const key of keys) io.out(JSON.stringify({ ...key, owner: login(key.memberId) }));
      return 0;
    }
    const moment = (date: Date | null, none: string) => (date === null ? none : isoMinute(date));
    io.out(
      table(
        ['ID', 'NAME', 'OWNER', 'SCOPES', 'MEMBERS', 'EXPIRES', 'LAST USED', 'STATE'],
        keys.map((key) => [
          ...[key.publicId, key.name, login(key.memberId), key.scopes.join(',')],
          key.memberIds === null ? 'all' : key.memberIds.map(login).join(','),
          moment(key.expiresAt, 'never'),
          moment(key.lastUsedAt, 'never'),
          key.revokedAt !== null ? 'revoked' : hasEnded(key) ? 'expired' : 'good',
        ]),
      ),
    );
    return 0;
  },
};

const revoke: Command = {
  summary: 'end a key',
  help: `muxwarden keys revoke ID

Ends a key at once, also what is open by it. ID is the one that \`muxwarden keys list\` shows, or the
whole key.`,
  async run(words, io) {
    const [word] = exactly(readWords(words, {}).positionals, 'ID');
    const publicId = publicIdIn(word);
    const outcome = await withRecord(readConfig(io.environment), io, async (database, onRecord) => {
      const key = await keyOf(database, publicId);
      const { memberId, name: label } = key;
      return onRecord({ command: 'keys revoke', action: 'REVOKE_API_KEY', memberId, label }, () =>
        new ApiKeys(database).revoke(key.id),
      );
    });
    io.out(outcome ? `Key ${publicId} is revoked.` : `Key ${publicId} was revoked before.`);
    return 0;
  },
};

const rotate: Command = {
  summary: 'replace a key by a new one',
  help: `muxwarden keys rotate ID [--overlap TIME]

Makes a key as that one is (owner, name, scopes, members, and as long a life) and prints it once. The old
one goes on for the overlap, 7 days at most, so that whoever uses it can change over.

  --overlap TIME   like 12h or 3d (default 24h); 0h ends the old one at once`,
  async run(words, io) {
    const { values, positionals } = readWords(words, {
      overlap: { type: 'string', default: '24h' },
    });
    const [word] = exactly(positionals, 'ID');
    const until = overlapEnd(values.overlap);
    const config = readConfig(io.environment);
    const { made, ends } = await withRecord(config, io, async (database, onRecord) => {
      const key = await keyOf(database, publicIdIn(word));
      const { memberId, name: label, expiresAt } = key;
      const ends = expiresAt !== null && expiresAt < until ? expiresAt : until;
      const act = { command: 'keys rotate', action: 'CREATE_API_KEY', memberId, label } as const;
      const facts = { ...factsOf(key), replaces: key.publicId, until: ends.toISOString() };
      const rotated = () => new ApiKeys(database).rotate(key.id, ends);
      return { made: await onRecord({ ...act, facts }, rotated), ends };
    });
    const { publicId, expiresAt } = made.apiKey;
    io.note(
      `Key ${publicId}, which ${lifeOf(expiresAt)}, replaces ${publicIdIn(word)}, which ends ${isoMinute(ends)}. It is shown this once:`,
    );
    io.out(made.key);
    return 0;
  },
};

export const keys = group('keys', 'Keys for scripts and dashboards.', {
  ...{ create, list, rotate, revoke },
});

const lifeOf = (expiresAt: Date | null) =>
  expiresAt === null ? 'does not expire' : `expires ${isoMinute(expiresAt)}`;

const publicIdIn = (word: string) => /^(?:mw_)?([0-9a-f]{16})(?:_[\w-]*)?$/.exec(word)?.[1];

/** @throws CommandError */
async function keyOf(database: Database, publicId: string | undefined) {
  const key = publicId && (await new ApiKeys(database).byPublicId(publicId));
  if (key) return key;
  throw new CommandError('There is no such key. `muxwarden keys list` shows them.');
}

function factsOf({
  scopes: of,
  memberIds,
  expiresAt,
}: Pick<ApiKey, 'scopes' | 'memberIds' | 'expiresAt'>) {
  return {
    scopes: of.join(' '),
    memberIds: memberIds?.join(' ') ?? null,
    expiresAt: expiresAt?.toISOString() ?? null,
  };
}

/** @throws UsageError */
function overlapEnd(text: string): Date {
  const now = Date.now();
  const until = /^0+[hdw]?$/.test(text) ? new Date(now) : expiryOf(text, now, '--overlap');
  if (until.getTime() - now > 7 * 86_400_000)
    throw new UsageError('--overlap is 7 days at most, or nobody changes over.');
  return until;
}

const wordsOf = (lists: readonly string[]) =>
  lists.flatMap((words) => words.split(/[\s,]+/)).filter(Boolean);
