import { CommandError } from '../command.ts';
import { account, membersGroup, stateHome } from './places.ts';
import {
  accountNamed,
  isForAccounts,
  membersOf,
  privilegesOf,
  rulesIn,
  sudoRules,
} from './privileges.ts';
import type { Step } from './step.ts';
import { sudoers } from './texts.ts';
import { must, tool } from './tool.ts';

/** The group of those whom the service may become. */
export const groupStep: Step = {
  what: `group ${membersGroup}`,
  made: { kind: 'group', name: membersGroup },
  async look() {
    const members = await membersOf(membersGroup);
    if (members === undefined) return 'made';
    const strong = await strongMembers(members);
    if (strong.length === 0) return null;
    throw new CommandError(
      `The group ${membersGroup} has members with privileges of their own, and the service could become them: ${strong.join('; ')}. Take them out: gpasswd -d USER ${membersGroup}. Nothing was changed.`,
    );
  },
  async apply() {
    await must('groupadd', '--system', membersGroup);
    return () => must('groupdel', membersGroup);
  },
};

/** Members of a group that an ordinary account is not, each with why. */
export async function strongMembers(members: readonly string[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of members) {
    const member = await accountNamed(name);
    if (member === undefined) continue;
    const privileges = [
      ...(await privilegesOf(member)),
      ...(name === account ? ['it is the service itself'] : []),
    ];
    if (privileges.length > 0) found.push(`${name} (${privileges.join(', ')})`);
  }
  return found;
}

/** The account of the service: no shell, no password, no group, and no rule but ours. */
export const accountStep: Step = {
  what: `account ${account}`,
  made: { kind: 'account', name: account },
  async look() {
    const faults = await accountFaults();
    if (faults === undefined) return 'made';
    if (faults.length === 0) return null;
    throw new CommandError(
      `There is an account ${account} already, and it is not one for the service: ${faults.join(', ')}. Rename it (usermod --login) or remove it (userdel). Nothing was changed.`,
    );
  },
  async apply() {
    const words = ['--system', '--user-group', '--no-create-home', '--home-dir', stateHome];
    await must('useradd', ...words, '--shell', await noShell(), account);
    return () => must('userdel', account);
  },
};

/** What is wrong with the account of the service; undefined: there is none. */
export async function accountFaults(): Promise<readonly string[] | undefined> {
  const found = await accountNamed(account);
  if (found === undefined) return undefined;
  const ours = rulesIn(sudoers, account);
  const others = (await sudoRules(account)).filter(
    (rule) => !ours.includes(rule) && !isForAccounts(rule),
  );
  const shadow = (await tool('getent', 'shadow', account)).stdout.split(':')[1] ?? '!';
  return [
    ...(await privilegesOf(found)),
    ...(others.length > 0 ? [`sudo lets it run ${others.join('; ')}`] : []),
    ...(/\/(nologin|false)$/.test(found.shell) ? [] : [`it has the shell ${found.shell}`]),
    ...(/^[!*]/.test(shadow) ? [] : ['it has a password']),
    ...(found.home === stateHome ? [] : [`its home is ${found.home}, not ${stateHome}`]),
  ];
}

async function noShell(): Promise<string> {
  for (const file of ['/usr/sbin/nologin', '/sbin/nologin'])
    if ((await tool('test', '-x', file)).exitCode === 0) return file;
  return '/bin/false';
}
