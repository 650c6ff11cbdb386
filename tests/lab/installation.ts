import { chmod, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { groupOf, rootOf, sudoersOf, type User } from './accounts.ts';

/** muxwarden installed as docs/deployment.md says, with the names of one lab. */
export interface Installation {
  readonly helper: string;
  readonly helperAct: string;
  /** The service's sources, readable for its account. */
  readonly app: string;
  readonly node: string;
  readonly sudoLog: string;
}

const repository = join(import.meta.dirname, '../..');

export async function install(id: string, service: User, logReads: boolean): Promise<Installation> {
  const root = rootOf(id);
  const helper = `${root}/libexec/muxwarden-member`;
  const helperAct = `${helper}-act`;
  for (const target of [helper, helperAct]) {
    const source = join(repository, 'libexec/muxwarden-member');
    await execa('install', ['-D', '-m', '0755', '-o', 'root', '-g', 'root', source, target]);
  }
  const sudoLog = `${root}/sudo.log`;
  await installSudoers(id, service, [
    `Defaults:${service.name} logfile=${sudoLog}, loglinelen=0`,
    ...(logReads ? [`Defaults:${service.name} log_allowed`] : []),
  ]);
  const app = await installApp(root, service);
  return { helper, helperAct, app, node: join(app, 'node_modules/.bin/node'), sudoLog };
}

/** The rule as the documentation prints it. */
export async function documentedSudoers(page = 'deployment'): Promise<string> {
  const text = await readFile(join(repository, `docs/${page}.md`), 'utf8');
  const block = /```sudoers\n([\s\S]*?)```/.exec(text)?.[1];
  if (block === undefined) throw new Error(`docs/${page}.md has no block of sudoers`);
  return block.replace(/^ +/gm, '');
}

async function installSudoers(id: string, service: User, extra: readonly string[]): Promise<void> {
  await putRule(id, service, sudoersOf(id), `${await documentedSudoers()}${extra.join('\n')}\n`);
}

/** Puts a rule of the documentation in place, with the names of this lab. */
export async function putRule(id: string, service: User, path: string, text: string) {
  const rule = text
    .replaceAll('/opt/muxwarden/', `${rootOf(id)}/`)
    .replaceAll('%muxwarden-members', `%${groupOf(id)}`)
    .replace(/^(Defaults:)?muxwarden /gm, `$1${service.name} `);
  const beside = `${rootOf(id)}/sudoers`;
  await writeFile(beside, rule);
  await chmod(beside, 0o440);
  await execa('visudo', ['-c', '-f', beside], { env: { PATH: `${process.env.PATH}:/usr/sbin` } });
  // A name with a dot is not read, and the last step can't be seen half done.
  await execa('cp', ['-p', beside, `/etc/sudoers.d/.mwl${id}.new`]);
  await rename(`/etc/sudoers.d/.mwl${id}.new`, path);
}

async function installApp(root: string, service: User): Promise<string> {
  const app = `${root}/app`;
  await execa('mkdir', [app]);
  const parts = ['bin', 'src', 'libexec', 'migrations', 'package.json'];
  const present = parts.map((part) => join(repository, part));
  await execa('cp', ['-r', ...present, app]);
  await execa('chmod', ['-R', 'a+rX', app]);
  const modules = join(repository, 'node_modules');
  if (await readable(modules, service)) await symlink(modules, `${app}/node_modules`);
  else {
    // A clone below a 0700 home. Hard links cost nothing, where it is the same file system.
    const linked = await execa('cp', ['-al', modules, app], { reject: false });
    if (linked.exitCode !== 0) await execa('cp', ['-a', modules, app]);
    await execa('chmod', ['-R', 'a+rX', `${app}/node_modules`]);
  }
  return app;
}

async function readable(modules: string, user: User): Promise<boolean> {
  const tried = await execa(
    join(modules, '.bin/node'),
    ['-e', `require(${JSON.stringify(join(modules, 'graphql/package.json'))})`],
    { uid: user.uid, gid: user.gid, cwd: '/', reject: false },
  );
  return tried.exitCode === 0;
}
