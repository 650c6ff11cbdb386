import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import { lookAt } from '../install/files.ts';
import {
  provision,
  provisionDropIn,
  provisionRules,
  provisionSettingsFile,
  provisionSudoersFile,
  unitFile,
} from '../install/places.ts';
import { isForAccounts } from '../install/privileges.ts';
import { ownRoot } from '../install/program.ts';
import { provisionCapabilities, provisionSettings, provisionSudoers } from '../install/texts.ts';
import { bad, type Check } from './check.ts';
import { again, plainFile } from './plain-file.ts';
import { ruleCheck } from './sudo-rule.ts';

/** The program for accounts: whole, or not there at all. */
export async function* provisioningChecks(config: Config): AsyncIterable<Check> {
  const isUsed = config.provision === provision;
  const dropIn = unitFile(provisionDropIn);
  const parts = [provision, dropIn, provisionSudoersFile, provisionSettingsFile];
  const there = await Promise.all(parts.map(async (path) => (await lookAt(path)) !== undefined));
  if (!isUsed && !there.includes(true)) return;
  const withIt = `${again} --with-provisioning`;
  if (!isUsed || there.includes(false)) {
    const missing = parts.filter((_, index) => !there[index]);
    return yield bad(
      'program for accounts',
      missing.length > 0 ? `is not whole: without ${missing.join(', ')}` : 'is not what is used',
      `Make it whole, as root: ${withIt}. Or take it away: ${again}. Then: muxwarden restart`,
    );
  }
  const own = await readFile(join(ownRoot, 'libexec/muxwarden-provision'), 'utf8');
  yield await plainFile('program for accounts', provision, 0o755, own, withIt);
  yield await plainFile('rules of the program for accounts', provisionRules, 0o644);
  yield await plainFile('unit', dropIn, 0o644, provisionCapabilities, withIt);
  yield await ruleCheck(provisionSudoersFile, provisionSudoers, isForAccounts, withIt);
  yield await plainFile('setting', provisionSettingsFile, 0o644, provisionSettings, withIt);
}
