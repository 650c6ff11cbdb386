import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { execa } from 'execa';
import type { Config } from '../../config.ts';
import { Members } from '../../members/members.ts';
import { isSystemError } from '../../system-error.ts';
import { withDatabase } from '../with-database.ts';
import { bad, type Check, good } from './check.ts';

const installing = 'As root: muxwarden install-system (docs/deployment.md).';

/** The helper and, in system mode, the right to run it as each member. */
export async function* reachChecks(config: Config): AsyncIterable<Check> {
  const files =
    config.mode === 'system' ? [config.helper, `${config.helper}-act`] : [config.helper];
  let whole = true;
  for (const file of files) {
    const check = await helper(file, config.mode === 'system');
    whole &&= check.ok;
    yield check;
  }
  if (config.mode === 'system' && whole) yield* rules(config);
}

async function helper(file: string, byRoot: boolean): Promise<Check> {
  const name = `helper ${file}`;
  try {
    await access(file, constants.X_OK);
    if (!(await stat(file)).isFile()) return bad(name, 'is no file', installing);
  } catch (cause) {
    return isSystemError(cause, 'ENOENT')
      ? bad(name, 'is not there', `Set MUXWARDEN_HELPER, or install it: ${installing}`)
      : bad(
          name,
          `can not be executed: ${cause instanceof Error ? cause.message : cause}`,
          `chmod 755 ${file}, and see that your user may enter all above it: namei -l ${file}`,
        );
  }
  if (!byRoot) return good(name, 'is there');
  // Whoever can change the file, or put another in its place, acts as every member.
  for (let path = file; ; path = dirname(path)) {
    const { uid, mode } = await stat(path);
    const sticky = (mode & 0o1000) !== 0 && path !== file;
    if (uid !== 0 || ((mode & 0o022) !== 0 && !sticky)) {
      return bad(
        name,
        `${path} can be changed by others than root`,
        `chown root:root ${path}; chmod go-w ${path}`,
      );
    }
    if (path === dirname(path)) return good(name, 'is there, root alone can change it');
  }
}

/** sudo itself says what it would allow; for the first member the helper is started, and asked nothing. */
async function* rules(config: Config): AsyncIterable<Check> {
  const members = await withDatabase(config, (database) => new Members(database).list()).catch(
    () => undefined,
  );
  // Without a database the check of the database has told why.
  if (members === undefined) return;
  const owners = members.filter(({ osUser, disabled }) => osUser !== null && !disabled);
  if (owners.length === 0) {
    yield bad(
      'members',
      'none has a Linux user, so no tmux server is shown',
      'Add one: muxwarden members add LOGIN --os-user USER',
    );
  }
  const { helper: read } = config;
  const calls = [
    ...[
      [read, 'serve'],
      [read, 'control'],
    ],
    ...[
      [`${read}-act`, 'act'],
      [`${read}-act`, 'start'],
    ],
  ];
  for (const { login, osUser } of owners) {
    const refused: string[] = [];
    for (const call of calls) {
      const { exitCode } = await execa('sudo', ['-n', '-l', '-u', osUser ?? '', ...call], {
        reject: false,
        timeout: 10_000,
        stdin: 'ignore',
      });
      if (exitCode !== 0) refused.push(call.join(' '));
    }
    const name = `sudo for ${login} (${osUser})`;
    yield refused.length === 0
      ? good(name, 'reads and acts are allowed')
      : bad(
          name,
          `not allowed: ${refused.join('; ')}`,
          `Is there a Linux user ${osUser}, in the group of the sudo rule? usermod --append --groups muxwarden-members ${osUser}`,
        );
  }
  const [first] = owners;
  if (first !== undefined) yield await called(read, first.login, first.osUser ?? '');
}

async function called(file: string, login: string, osUser: string): Promise<Check> {
  const name = `helper as ${login} (${osUser})`;
  const { exitCode, stdout, stderr, originalMessage } = await execa(
    'sudo',
    ['-n', '-u', osUser, file, 'serve'],
    { reject: false, timeout: 10_000, input: '' },
  );
  if (exitCode === 0 && stdout === '' && stderr === '') return good(name, 'starts and ends');
  const said = `${stderr || stdout || originalMessage || `exit status ${exitCode}`}`;
  return bad(
    name,
    `does not run: ${said.slice(0, 300)}`,
    `Mend what sudo or the helper says. ${installing}`,
  );
}
