import { ApiKeys } from '../auth/api-keys.ts';
import { scopes } from '../auth/viewer.ts';
import { readConfig } from '../config.ts';
import { Members } from '../members/members.ts';
import { type Command, CommandError, exactly, group, oneOf, readWords } from './command.ts';
import { expiryOf } from './expiry.ts';
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
    const wanted = wordsOf(values.scopes).map((word) => oneOf('--scopes', word, scopes));
    const expiresAt = values.expires === undefined ? null : expiryOf(values.expires);
    const config = readConfig(io.environment);
    const key = await withDatabase(config, async (database) => {
      const all = await new Members(database).list();
      const owner =
        values.owner === undefined
          ? ownMember(all, config, 'Say whose key it is: --owner LOGIN.')
          : memberNamed(all, values.owner);
      const touched =
        values.members && wordsOf(values.members).map((login) => memberNamed(all, login).id);
      const made = await new ApiKeys(database).create({
        memberId: owner.id,
        name,
        scopes: wanted,
        memberIds: touched ?? null,
        expiresAt,
        // Who can open the state directory or the database has admin.key as well.
        madeByAdmin: true,
      });
      io.note(
        `Key ${made.apiKey.publicId} of ${owner.login}: ${wanted.join(', ')}; ${expiresAt === null ? 'does not expire' : `expires ${isoMinute(expiresAt)}`}. It is shown this once:`,
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
          key.revokedAt !== null
            ? 'revoked'
            : key.expiresAt !== null && key.expiresAt.getTime() <= Date.now()
              ? 'expired'
              : 'good',
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
    const publicId = /^(?:mw_)?([0-9a-f]{16})(?:_[\w-]*)?$/.exec(word)?.[1];
    const outcome = await withDatabase(readConfig(io.environment), async (database) => {
      const keys = new ApiKeys(database);
      const key = publicId === undefined ? undefined : await keys.byPublicId(publicId);
      return key === undefined ? undefined : keys.revoke(key.id);
    });
    if (outcome === undefined) {
      throw new CommandError('There is no such key. `muxwarden keys list` shows them.');
    }
    io.out(outcome ? `Key ${publicId} is revoked.` : `Key ${publicId} was revoked before.`);
    return 0;
  },
};

export const keys = group('keys', 'Keys for scripts and dashboards.', { create, list, revoke });

const wordsOf = (lists: readonly string[]) =>
  lists.flatMap((words) => words.split(/[\s,]+/)).filter(Boolean);
