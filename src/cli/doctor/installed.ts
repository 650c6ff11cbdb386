import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import { ifThere } from '../../system-error.ts';
import { accountFaults, strongMembers } from '../install/accounts.ts';
import {
  account,
  helper,
  helperAct,
  hooksPath,
  hooksUnit,
  membersGroup,
  restartPath,
  restartUnit,
  settingsFile,
  stateHome,
  sudoersFile,
  unit,
  unitFile,
} from '../install/places.ts';
import { accountNamed, isForAccounts, membersOf } from '../install/privileges.ts';
import { ownRoot } from '../install/program.ts';
import {
  hooksPathUnit,
  hooksServiceUnit,
  restartPathUnit,
  restartServiceUnit,
  service,
  sudoers,
} from '../install/texts.ts';
import { bad, type Check, good, looked } from './check.ts';
import { hookFolderChecks } from './hook-folders.ts';
import { again, plainFile } from './plain-file.ts';
import { provisioningChecks } from './provisioning.ts';
import { ruleCheck } from './sudo-rule.ts';

/** What install-system made, each thing against what this version makes. */
export async function* installedChecks(config: Config): AsyncIterable<Check> {
  // Installed by hand, under other names: the other checks look at what is used.
  if (config.mode !== 'system' || config.helper !== helper) return;
  yield await accountCheck();
  yield await groupCheck();
  for (const path of [helper, helperAct]) yield await helperCheck(path);
  yield await ruleCheck(sudoersFile, sudoers, (rule) => !isForAccounts(rule));
  yield* provisioningChecks(config);
  yield await folderOfState();
  yield* hookFolderChecks(config);
  yield await plainFile('settings file', settingsFile, 0o644);
  for (const [name, text] of units) yield await plainFile('unit', unitFile(name), 0o644, text);
}

const units = [
  [unit, service],
  [restartPath, restartPathUnit],
  [restartUnit, restartServiceUnit],
  [hooksPath, hooksPathUnit],
  [hooksUnit, hooksServiceUnit],
] as const;

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
