import { ownUser } from '../auth/bootstrap.ts';
import { hashPassword } from '../auth/passwords.ts';
import { readConfig } from '../config.ts';
import { checkedLogin, checkedOsUser } from '../members/login.ts';
import { type Member, roles } from '../members/member.ts';
import { Members } from '../members/members.ts';
import { type Command, exactly, group, oneOf, readWords } from './command.ts';
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
    const hash = values.password
      ? await hashPassword(await io.readSecret(`Password of ${login}`))
      : undefined;
    await withDatabase(config, async (database) => {
      const members = new Members(database);
      const { id } = await members.add({ login, role, osUser });
      if (hash !== undefined) await members.setPassword(id, hash);
    });
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
    await withDatabase(config, (database) => new Members(database).setPassword(id, hash));
    io.out(values.remove ? `${login} has no password now.` : `The password of ${login} is set.`);
    return 0;
  },
};

function change(
  word: string,
  summary: string,
  help: string,
  done: string,
  act: (members: Members, member: Member) => Promise<void>,
): Command {
  return {
    summary,
    help: `muxwarden members ${word} LOGIN\n\n${help}`,
    async run(words, io) {
      const [login] = exactly(readWords(words, {}).positionals, 'LOGIN');
      await withDatabase(readConfig(io.environment), async (database) => {
        const members = new Members(database);
        await act(members, await members.byLogin(login));
      });
      io.out(`${login} is ${done}.`);
      return 0;
    },
  };
}

const role: Command = {
  summary: 'give a member another role',
  help: `muxwarden members role LOGIN ROLE

ROLE is one of ${roles.join(', ')}. The member is signed out everywhere; its keys keep working,
within the new role.`,
  async run(words, io) {
    const [login, word] = exactly(readWords(words, {}).positionals, 'LOGIN', 'ROLE');
    const wanted = oneOf('ROLE', word, roles);
    await withDatabase(readConfig(io.environment), async (database) => {
      const members = new Members(database);
      await members.setRole((await members.byLogin(login)).id, wanted);
    });
    io.out(`${login} is ${wanted} now.`);
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
    disable: change(
      'disable',
      'keep a member out',
      'Signs the member out everywhere; its keys stop working. Its tmux servers are not touched.',
      'disabled',
      (all, { id }) => all.disable(id),
    ),
    enable: change(
      'enable',
      'let a disabled member in again',
      'Its keys work again; sign-in is possible again.',
      'enabled',
      (all, { id }) => all.enable(id),
    ),
  },
);
