import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import type { Config } from '../../config.ts';
import { ifThere } from '../../system-error.ts';
import { accountFaults, strongMembers } from '../install/accounts.ts';
import { changeable, lookAt } from '../install/files.ts';
import {
  account,
  helper,
  helperAct,
  membersGroup,
  restartPath,
  restartUnit,
  settingsFile,
  stateHome,
  sudoersFile,
  unit,
  unitFile,
} from '../install/places.ts';
import { accountNamed, isForAccounts, membersOf, rulesIn } from '../install/privileges.ts';
import { ownRoot } from '../install/program.ts';
import { restartPathUnit, restartServiceUnit, service, sudoers } from '../install/texts.ts';
import { bad, type Check, good, looked } from './check.ts';

/** What install-system made, each thing against what this version makes. */
export async function* installedChecks(config: Config): AsyncIterable<Check> {
  // Installed by hand, under other names: the other checks look at what is used.
  if (config.mode !== 'system' || config.helper !== helper) return;
  yield await accountCheck();
  yield await groupCheck();
  for (const path of [helper, helperAct]) yield await helperCheck(path);
  yield await ruleCheck();
  yield await folderOfState();
  yield await plainFile('settings file', settingsFile, 0o644);
  yield await plainFile('unit', unitFile(unit), 0o644, service);
  yield await plainFile('unit', unitFile(restartPath), 0o644, restartPathUnit);
  yield await plainFile('unit', unitFile(restartUnit), 0o644, restartServiceUnit);
}

const again = 'muxwarden install-system';

async function accountCheck(): Promise<Check> {
  const name = `account ${account}`;
  const faults = await accountFaults();
  if (faults === undefined) return bad(name, 'is not there', `Make it, as root: ${again}`);
  if (faults.length > 0)
    return bad(
      name,
      faults.join(', '),
      `Take that away, as root: gpasswd -d ${account} GROUP; usermod --lock --shell /usr/sbin/nologin --home ${stateHome} ${account}; visudo`,
    );
  const uid = (await accountNamed(account))?.uid;
  return uid === process.geteuid?.()
    ? good(name, `id ${uid}, without a shell, a password or a privilege`)
    : bad(
        name,
        'is not who runs this, so not all could be tried',
        'Run it as root by: muxwarden doctor',
      );
}

async function groupCheck(): Promise<Check> {
  const name = `group ${membersGroup}`;
  const members = await membersOf(membersGroup);
  if (members === undefined) return bad(name, 'is not there', `Make it, as root: ${again}`);
  const strong = await strongMembers(members);
  return strong.length === 0
    ? good(
        name,
        members.length === 0
          ? 'nobody is in it yet'
          : `none with privileges among ${members.join(', ').slice(0, 200)}`,
      )
    : bad(
        name,
        `whoever owns the service could become ${strong.join('; ')}`,
        `Take them out, as root: gpasswd -d USER ${membersGroup}`,
      );
}

async function helperCheck(path: string): Promise<Check> {
  const own = await readFile(join(ownRoot, 'libexec/muxwarden-member'), 'utf8');
  return plainFile('installed helper', path, 0o755, own);
}

/** Of root's, with this mode and content, where nobody else can put another. */
function plainFile(kind: string, path: string, mode: number, content?: string): Promise<Check> {
  const name = `${kind} ${path}`;
  return looked(name, path, () => fileCheck(name, kind, path, mode, content));
}

async function fileCheck(
  name: string,
  kind: string,
  path: string,
  mode: number,
  content: string | undefined,
): Promise<Check> {
  const found = await lookAt(path);
  if (found === undefined) return bad(name, 'is not there', `Make it, as root: ${again}`);
  if (!found.isFile())
    return bad(name, 'is no plain file', `Move it away, then, as root: ${again}`);
  const open = await changeable(path);
  if (open !== undefined)
    return bad(
      name,
      `${open} can be changed by others than root`,
      `As root: chown root:root ${open}; chmod go-w ${open}`,
    );
  const wanted = mode.toString(8).padStart(4, '0');
  const bits = (found.mode & 0o7777).toString(8).padStart(4, '0');
  if (bits !== wanted)
    return bad(name, `has mode ${bits}, not ${wanted}`, `As root: chmod ${wanted} ${path}`);
  if (content !== undefined && (await readFile(path, 'utf8')) !== content)
    return bad(
      name,
      'is not the one of this version',
      `As root: ${again}. If that says it was changed since, move it away first${kind === 'unit' ? '; what is to differ goes into a drop-in (systemctl edit)' : ''}.`,
    );
  return good(
    name,
    `${content === undefined ? '' : 'is that of this version, '}root's, mode ${bits}`,
  );
}

/** The text itself for root; for the account, what sudo makes of it. */
async function ruleCheck(): Promise<Check> {
  const name = `rule for sudo ${sudoersFile}`;
  if (process.geteuid?.() === 0) return plainFile('rule for sudo', sudoersFile, 0o440, sudoers);
  const file = await plainFile('rule for sudo', sudoersFile, 0o440);
  if (!file.ok) return file;
  const { stdout } = await execa('sudo', ['-n', '-l'], {
    ...{ reject: false, timeout: 10_000, stdin: 'ignore' },
  });
  const said = stdout.replaceAll(/\s+/g, ' ');
  const [defaults = '', list = ''] = said.split(/User \S+ may run the following commands on \S+ /);
  const rules = list.split(/ (?=\([^)]+\) )/).filter((rule) => !isForAccounts(rule));
  const missing = defaultsIn(sudoers).filter((word) => !defaults.includes(word));
  if (missing.length > 0 || rules.join(' ').trim() !== rulesIn(sudoers, account).join(' '))
    return bad(
      name,
      `sudo understands something else: ${missing.length > 0 ? `without ${missing.join(', ')}` : rules.join(' ').slice(0, 300) || 'nothing is allowed'}`,
      `Move ${sudoersFile} away, then, as root: ${again}. Look for other rules that name ${account}.`,
    );
  return good(name, "is that of this version, root's, mode 0440; nothing else is allowed");
}

const defaultsIn = (text: string) =>
  [...text.matchAll(/^Defaults\S+ (.*)$/gm)].flatMap(([, words = '']) => words.split(', '));

function folderOfState(): Promise<Check> {
  const name = `state folder ${stateHome}`;
  return looked(name, stateHome, () => stateCheck(name));
}

async function stateCheck(name: string): Promise<Check> {
  const found = await ifThere(stat(stateHome));
  if (found === undefined) return bad(name, 'is not there', `Make it, as root: ${again}`);
  const owner = (await accountNamed(account))?.uid;
  if (found.uid !== owner)
    return bad(
      name,
      `belongs to the user with id ${found.uid}`,
      `As root: chown -R ${account}: ${stateHome}`,
    );
  const bits = (found.mode & 0o7777).toString(8).padStart(4, '0');
  return bits === '0700'
    ? good(name, `of ${account} alone, mode ${bits}`)
    : bad(name, `is open to others, mode ${bits}`, `As root: chmod 0700 ${stateHome}`);
}
