import { randomUUID } from 'node:crypto';
import { ownUser } from '../auth/bootstrap.ts';
import { hashPassword } from '../auth/passwords.ts';
import { readConfig } from '../config.ts';
import { checkedLogin, checkedOsUser } from '../members/login.ts';
import { roles } from '../members/member.ts';
import { type MemberChange, Members } from '../members/members.ts';
import { type Command, exactly, group, type Io, oneOf, readWords } from './command.ts';
import { withRecord } from './on-record.ts';
import { isoMinute, table } from './table.ts';
import { withDatabase } from './with-database.ts';

const add: Command = {
  summary: 'add a member',
  help: `muxwarden members add LOGIN [--role ROLE] [--os-user USER] [--password]

Adds a member. LOGIN is its name here; USER is the Linux user whose tmux servers it owns.

  --role ROLE      ${roles.join(', ')} (default DEVELOPER)
  --os-user USER   without it the member has no tmux servers of its own
  --password       ask for a password (or read it from the first line of the input); without one,
                   the member signs in by \`muxwarden login LOGIN\` or uses a key`,
  async run(words, io) {
    const { values, positionals } = readWords(words, {
      role: { type: 'string', default: 'DEVELOPER' },
      'os-user': { type: 'string' },
      password: { type: 'boolean', default: false },
    });
    const [word] = exactly(positionals, 'LOGIN');
    const role = oneOf('--role', values.role, roles);
    const login = checkedLogin(word);
    const osUser = values['os-user'] === undefined ? null : checkedOsUser(values['os-user']);
    const config = readConfig(io.environment);
    const passwordHash = values.password
      ? await hashPassword(await io.readSecret(`Password of ${login}`))
      : null;
    const id = randomUUID();
    await withRecord(config, io, (database, onRecord) =>
      onRecord(
        {
          ...{ command: 'members add', action: 'CREATE_MEMBER', memberId: id, label: login },
          facts: { login, role, osUser, hasPassword: passwordHash !== null },
        },
        () => new Members(database).add({ login, role, osUser, passwordHash }, id),
      ),
    );
    io.out(`Added ${role} ${login}${osUser === null ? '' : `, Linux user ${osUser}`}.`);
    if (config.mode === 'local' && osUser !== null && osUser !== ownUser()) {
      io.note(
        `Note: in local mode only the tmux servers of ${ownUser()} are reached. Those of ${osUser} need MUXWARDEN_MODE=system.`,
      );
    }
    return 0;
  },
};

const list: Command = {
  summary: 'show the members',
  help: `muxwarden members list [--json]

Shows every member by login.

  --json   one JSON object a line`,
  async run(words, io) {
    const { values, positionals } = readWords(words, { json: { type: 'boolean', default: false } });
    exactly(positionals);
    const members = await withDatabase(readConfig(io.environment), (database) =>
      new Members(database).list(),
    );
    if (values.json) {
      for (const member of members) io.out(JSON.stringify(member));
      return 0;
    }
    io.out(
      table(
        ['LOGIN', 'ROLE', 'LINUX USER', 'STATE', 'SINCE'],
        members.map(({ login, role, osUser, disabled, createdAt }) => [
          ...[login, role, osUser ?? '-', disabled ? 'disabled' : 'enabled'],
          isoMinute(createdAt),
        ]),
      ),
    );
    return 0;
  },
};

const passwd: Command = {
  summary: "set a member's password",
  help: `muxwarden members passwd LOGIN [--remove]

Asks for a password twice, or reads it from the first line of the input when that is no terminal.
Restarting a tmux server needs it again each time. The member is signed out everywhere.

  --remove   no password from now on`,
  async run(words, io) {
    const { values, positionals } = readWords(words, {
      remove: { type: 'boolean', default: false },
    });
    const [login] = exactly(positionals, 'LOGIN');
    const config = readConfig(io.environment);
    // Nothing is held while somebody types.
    const { id } = await withDatabase(config, (database) => new Members(database).byLogin(login));
    const hash = values.remove
      ? null
      : await hashPassword(await io.readSecret(`New password of ${login}`));
    await withRecord(config, io, (database, onRecord) =>
      onRecord(
        {
          ...{ command: 'members passwd', action: 'UPDATE_MEMBER', memberId: id, label: login },
          facts: { hasPassword: hash !== null },
        },
        () => new Members(database).setPassword(id, hash),
      ),
    );
    io.out(values.remove ? `${login} has no password now.` : `The password of ${login} is set.`);
    return 0;
  },
};

/** One change of one member, on record. */
async function changed(io: Io, command: string, login: string, change: MemberChange) {
  await withRecord(readConfig(io.environment), io, async (database, onRecord) => {
    const all = new Members(database);
    const { id } = await all.byLogin(login);
    const act = { command, action: 'UPDATE_MEMBER', memberId: id, label: login } as const;
    await onRecord({ ...act, facts: { ...change } }, () => all.change(id, change));
  });
}

function entry(word: string, summary: string, help: string, disabled: boolean): Command {
  return {
    summary,
    help: `muxwarden members ${word} LOGIN\n\n${help}`,
    async run(words, io) {
      const [login] = exactly(readWords(words, {}).positionals, 'LOGIN');
      await changed(io, `members ${word}`, login, { disabled });
      io.out(`${login} is ${word}d.`);
      return 0;
    },
  };
}

const role: Command = {
  summary: 'give a member another role',
  help: `muxwarden members role LOGIN ROLE

ROLE is one of ${roles.join(', ')}. The member is signed out everywhere; its keys keep working,
within the new role. The last ADMIN that is enabled stays one.`,
  async run(words, io) {
    const [login, word] = exactly(readWords(words, {}).positionals, 'LOGIN', 'ROLE');
    const wanted = oneOf('ROLE', word, roles);
    await changed(io, 'members role', login, { role: wanted });
    io.out(`${login} is ${wanted} now.`);
    return 0;
  },
};

const remove: Command = {
  summary: 'remove a member',
  help: `muxwarden members delete LOGIN

Signs the member out everywhere and revokes its keys, for good. Its tmux servers are not touched, and
the audit log goes on naming it. The last ADMIN that is enabled stays.`,
  async run(words, io) {
    const [login] = exactly(readWords(words, {}).positionals, 'LOGIN');
    await withRecord(readConfig(io.environment), io, async (database, onRecord) => {
      const all = new Members(database);
      const { id } = await all.byLogin(login);
      await onRecord(
        { command: 'members delete', action: 'DELETE_MEMBER', memberId: id, label: login },
        () => all.delete(id),
      );
    });
    io.out(`${login} is deleted.`);
    return 0;
  },
};

export const members = group(
  'members',
  'Who may use this service, and whose tmux servers it shows.',
  {
    add,
    list,
    passwd,
    role,
    disable: entry(
      'disable',
      'keep a member out',
      'Signs the member out everywhere; its keys stop working. Its tmux servers are not touched.\nThe last ADMIN that is enabled stays so.',
      true,
    ),
    enable: entry(
      'enable',
      'let a disabled member in again',
      'Its keys work again; sign-in is possible again.',
      false,
    ),
    delete: remove,
  },
);
