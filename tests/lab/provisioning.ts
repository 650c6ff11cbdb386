import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { groupOf, rootOf, sudoersOf } from './accounts.ts';
import { documentedSudoers, putRule } from './installation.ts';
import type { Lab } from './lab.ts';

/** The program that makes accounts, installed as docs/provisioning.md says, with the names of one lab. */
export interface Provisioning {
  readonly program: string;
  readonly homes: string;
  readonly hooks: string;
  readonly registry: string;
  account(login: string): string;
  /** As root, without sudo and without the service. */
  ask(verb: string, login: string, under?: readonly string[]): Promise<Asked>;
}

export interface Asked {
  readonly status: number | undefined;
  readonly signal: string | undefined;
  readonly rows: readonly (readonly string[])[];
  /** The code of its refusal. */
  readonly code: string | undefined;
  readonly said: string;
}

export async function installProvisioning({ id, users }: Lab): Promise<Provisioning> {
  const root = rootOf(id);
  const program = `${root}/libexec/muxwarden-provision`;
  const source = join(import.meta.dirname, '../../libexec/muxwarden-provision');
  await execa('install', ['-m', '0755', '-o', 'root', '-g', 'root', source, program]);
  const folders = {
    homes: `${root}/homes`,
    hooks: `${root}/hooks`,
    registry: `${root}/registry`,
  };
  const settings = {
    prefix: `mwl${id}-`,
    group: groupOf(id),
    service: users.service.name,
    shell: '/bin/sh',
    ...folders,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(`${program}.conf`, lines.join(''), { mode: 0o644 });
  const rule = await documentedSudoers('provisioning');
  await putRule(id, users.service, `${sudoersOf(id)}-provision`, rule);
  return {
    program,
    ...folders,
    account: (login) => `mwl${id}-${login}`,
    async ask(verb, login, under = []) {
      const [file = '', ...args] = [...under, program, verb];
      const input = `1 ${verb} login=${Buffer.from(login).toString('hex')}\n`;
      const result = await execa(file, args, { cwd: '/', input, reject: false, timeout: 60_000 });
      const rows = result.stdout.split('\n').map((line) => line.split('\t'));
      return {
        status: result.exitCode,
        signal: result.signal,
        rows,
        code: rows.find(([kind]) => kind === 'fail')?.[1],
        said: `${result.stdout}${result.stderr}`,
      };
    },
  };
}

/** How the account stands in the machine's own files. */
export async function accountOf(name: string) {
  const line = async (database: string) =>
    (await execa('getent', [database, name], { reject: false })).stdout.split(':');
  const [passwd, shadow, group] = [await line('passwd'), await line('shadow'), await line('group')];
  return {
    exists: passwd.length > 1,
    uid: Number(passwd[2]),
    gid: Number(passwd[3]),
    home: passwd[5] ?? '',
    password: shadow[1],
    expires: shadow[7],
    group: group.length > 1 ? { gid: Number(group[2]), members: group[3] } : null,
  };
}
