import { execa } from 'execa';
import { account } from '../install/places.ts';
import { rulesIn } from '../install/privileges.ts';
import { bad, type Check, good } from './check.ts';
import { again, plainFile } from './plain-file.ts';

/**
 * The text itself for root; for the account, what sudo makes of it.
 * @param about of all rules, those that this text has to be
 */
export async function ruleCheck(
  path: string,
  text: string,
  about: (rule: string) => boolean,
  by = again,
): Promise<Check> {
  const name = `rule for sudo ${path}`;
  if (process.geteuid?.() === 0) return plainFile('rule for sudo', path, 0o440, text, by);
  const file = await plainFile('rule for sudo', path, 0o440, undefined, by);
  if (!file.ok) return file;
  const { stdout } = await execa('sudo', ['-n', '-l'], {
    ...{ reject: false, timeout: 10_000, stdin: 'ignore' },
  });
  const said = stdout.replaceAll(/\s+/g, ' ');
  const [defaults = '', list = ''] = said.split(/User \S+ may run the following commands on \S+ /);
  const rules = list.split(/ (?=\([^)]+\) )/).filter(about);
  const missing = defaultsIn(text).filter((word) => !defaults.includes(word));
  if (missing.length > 0 || rules.join(' ').trim() !== rulesIn(text, account).join(' '))
    return bad(
      name,
      `sudo understands something else: ${missing.length > 0 ? `without ${missing.join(', ')}` : rules.join(' ').slice(0, 300) || 'nothing is allowed'}`,
      `Move ${path} away, then, as root: ${by}. Look for other rules that name ${account}.`,
    );
  return good(name, "is that of this version, root's, mode 0440; nothing else is allowed");
}

const defaultsIn = (text: string) =>
  [...text.matchAll(/^Defaults\S+ (.*)$/gm)].flatMap(([, words = '']) => words.split(', '));
