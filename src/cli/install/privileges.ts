import { provision, account as serviceAccount } from './places.ts';
import { tool } from './tool.ts';

/** A Linux account as the system's own tools tell it. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
  readonly shell: string;
}

export async function accountNamed(name: string): Promise<Account | undefined> {
  const { exitCode, stdout } = await tool('getent', 'passwd', name);
  return exitCode === 0 ? accountIn(stdout.trim()) : undefined;
}

export async function accounts(): Promise<readonly Account[]> {
  const { stdout } = await tool('getent', 'passwd');
  return stdout.split('\n').filter(Boolean).map(accountIn);
}

function accountIn(line: string): Account {
  const [name = '', , uid, gid, , home = '', shell = ''] = line.split(':');
  return { name, uid: Number(uid), gid: Number(gid), home, shell };
}

/** By name or number. Undefined: there is no such group. */
export async function membersOf(group: string): Promise<readonly string[] | undefined> {
  const { exitCode, stdout } = await tool('getent', 'group', group);
  if (exitCode !== 0) return undefined;
  return (stdout.trim().split(':')[3] ?? '').split(',').filter(Boolean);
}

/** Groups by which an account gets at more than its own. */
const strong = new Set(
  'root sudo wheel admin adm shadow disk kmem docker lxd libvirt systemd-journal'.split(' '),
);

/** What this account may that an ordinary one may not, as words of a sentence. */
export async function privilegesOf(account: Account): Promise<readonly string[]> {
  const { stdout } = await tool('id', '-nG', account.name);
  const groups = stdout.split(/\s+/).filter((name) => strong.has(name));
  const rules = account.name === serviceAccount ? [] : await sudoRules(account.name);
  return [
    ...(account.uid === 0 ? ['it is root'] : []),
    ...groups.map((name) => `it is in the group ${name}`),
    ...(rules.length > 0 ? [`sudo lets it run ${rules.join('; ')}`] : []),
  ];
}

/** What sudo lets an account do: `(whom) TAGS: commands`, one for each rule. */
export async function sudoRules(name: string): Promise<readonly string[]> {
  const { stdout } = await tool('sudo', '-n', '-l', '-U', name);
  const [, rules = ''] = stdout.split(/may run the following commands on [^\n]*:\n/);
  return rules
    .split(/\n(?= {4}\()/)
    .map((rule) => rule.replaceAll(/\s+/g, ' ').trim())
    .filter(Boolean);
}

/** Of the program for accounts alone. */
export const isForAccounts = (rule: string) =>
  rule.startsWith('(root) ') &&
  rule
    .replace(/^\(root\) (\S+ )*?(?=\/)/, '')
    .split(', ')
    .every((command) => command.startsWith(`${provision} `));

/** How `sudo -l` prints the rules of this text for that account. */
export function rulesIn(text: string, name: string): readonly string[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name} `))
    .map((line) => line.replace(/^\S+ \S+?=/, ''));
}
