import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { signalSeen } from '../support/process-table.ts';
import { eventually } from '../support/tmux-server.ts';
import { type Lab, startLab } from './lab.ts';
import { lookAtMembers, refresh } from './members-page.ts';
import { processesWhere } from './processes.ts';
import { accountOf, installProvisioning, type Provisioning } from './provisioning.ts';
import type { Service } from './service.ts';

/** Accounts of members through GraphQL, sudo and the program that makes them. */

const mutation = `mutation ($input: ProvisionMemberInput!) {
  provisionMember(input: $input) {
    __typename
    ... on UserError { code message }
    ... on ProvisionMemberPayload {
      account done removed ended { pid command } recorded
      member { login osUser disabled }
      auditEvent { id outcome message }
    }
  }
}`;

interface Provisioned {
  readonly __typename: string;
  readonly code?: string;
  readonly message?: string;
  readonly account: string;
  readonly done: readonly string[];
  readonly removed: readonly string[];
  readonly ended: readonly { readonly pid: number; readonly command: string }[];
  readonly recorded: boolean;
  readonly member: { readonly osUser: string | null; readonly disabled: boolean };
  readonly auditEvent: { readonly outcome: string; readonly message: string | null };
}

describe.skipIf(lacks('root', 'sudo', 'visudo', 'tmux'))('a member’s account', () => {
  let lab: Lab;
  let program: Provisioning;
  let service: Service;
  let keys = 0;
  const ids = new Map<string, string>();

  beforeAll(async () => {
    lab = await startLab();
    program = await installProvisioning(lab);
    service = await start();
    for (const login of ['dana', 'alice', 'cut']) await service.cli(['members', 'add', login]);
    await eventually(async () => {
      const { members } = await lookAtMembers(service);
      for (const [login, { id }] of members) ids.set(login, id);
      return ids.has('cut') || undefined;
    }, 'the members are there');
  }, 120_000);
  afterAll(() => lab?.[Symbol.asyncDispose]());

  const start = () => lab.startService({ environment: { MUXWARDEN_PROVISION: program.program } });
  const idOf = (login: string) => ids.get(login) ?? expect.fail(login);

  async function provision(login: string, action: string, to = service): Promise<Provisioned> {
    keys += 1;
    const input = { idempotencyKey: `k-${keys}`, memberId: idOf(login), action };
    const { data, errors } = await to.query<{ provisionMember: Provisioned }>(mutation, { input });
    expect(errors).toEqual([]);
    return data?.provisionMember ?? expect.fail();
  }

  const rows = async (login: string) => {
    const { data } = await service.query<{
      auditEvents: { nodes: { phase: string; outcome: string | null; code: string | null }[] };
    }>(
      `query ($memberId: ID) { auditEvents(first: 50, filter: { memberId: $memberId, action: [PROVISION_MEMBER] }) { nodes { phase outcome code } } }`,
      { memberId: idOf(login) },
    );
    return data?.auditEvents.nodes.map(({ phase, outcome, code }) =>
      [phase, outcome, code].filter((word) => word !== null).join(' '),
    );
  };

  it('knows four actions, and names them to whoever asks for another one', async () => {
    for (const action of ['purge', 'delete', 'PURGE']) {
      const input = { idempotencyKey: 'k', memberId: idOf('dana'), action };
      const byVariable = await service.query(mutation, { input });
      const literal = await service.query(
        `mutation { provisionMember(input: { idempotencyKey: "k", memberId: "${idOf('dana')}", action: ${action} }) { __typename } }`,
      );
      for (const { errors } of [byVariable, literal])
        expect(errors).toMatchObject([
          {
            message: expect.stringContaining('It has CREATE, DELETE, RESUME, SUSPEND.'),
            extensions: { code: 'BAD_USER_INPUT' },
          },
        ]);
    }
  });

  it('is all of root’s that sudo allows the service, by five verbs', async () => {
    const listed = await lab.runAs(lab.users.service, ['sudo', '-n', '-l']);
    expect(
      listed.stdout.replace(/\s+/g, ' ').match(/\/[^!\s]+muxwarden-provision (?!log_)\w+/g),
    ).toEqual(
      ['look', 'create', 'suspend', 'resume', 'delete'].map((verb) => `${program.program} ${verb}`),
    );
    for (const words of [['purge'], ['look', 'x'], []])
      expect(
        (await lab.runAs(lab.users.service, ['sudo', '-n', program.program, ...words])).exitCode,
      ).toBe(1);
  });

  it('is made with a home that is its own, is reached at once, and on record', async () => {
    const made = await provision('dana', 'CREATE');
    const account = program.account('dana');
    expect(made).toMatchObject({
      __typename: 'ProvisionMemberPayload',
      account,
      recorded: true,
      member: { osUser: account, disabled: false },
      auditEvent: { outcome: 'SUCCEEDED', message: expect.stringContaining('made the account') },
    });
    expect(await accountOf(account)).toMatchObject({ exists: true, password: '!' });
    const again = await provision('dana', 'CREATE');
    expect([again.done, again.member.osUser]).toEqual([[], account]);
    expect(await rows('dana')).toEqual([
      ...['OUTCOME SUCCEEDED', 'INTENT', 'OUTCOME SUCCEEDED', 'INTENT'],
    ]);
    const dana = await eventually(async () => {
      const seen = await refresh(service, idOf('dana'));
      return seen.listing.state === 'FRESH' ? seen : undefined;
    }, 'the member is looked at');
    expect(dana.tmuxServers).toEqual([]);
  });

  it('is not made over one that exists, nor for a member who has another', async () => {
    const before = await accountOf(lab.users.alice.name);
    expect(await provision('alice', 'CREATE')).toMatchObject({
      code: 'EUNSUPPORTED',
      message: expect.stringContaining('not made here'),
    });
    expect(await provision('alice', 'DELETE')).toMatchObject({ code: 'EUNSUPPORTED' });
    expect(await accountOf(lab.users.alice.name)).toEqual(before);
    expect(await rows('alice')).toEqual([
      ...['OUTCOME FAILED EUNSUPPORTED', 'OUTCOME FAILED EUNSUPPORTED'],
    ]);
  });

  it('is suspended with its member, and given back', async () => {
    const user = await danaUser();
    const tmux = await lab.startTmuxAs(user);
    const pid = await tmux.pid();
    expect(await provision('dana', 'SUSPEND')).toMatchObject({ member: { disabled: true } });
    expect((await accountOf(user.name)).expires).toBe('1');
    const seen = await refresh(service, idOf('dana'));
    expect(seen.tmuxServers).toMatchObject([{ pid, status: 'RUNNING' }]);
    expect(await provision('dana', 'CREATE')).toMatchObject({ code: 'EUNSUPPORTED' });
    expect(await provision('dana', 'RESUME')).toMatchObject({ member: { disabled: false } });
    expect((await accountOf(user.name)).expires).toBe('');
    expect(await tmux.pid()).toBe(pid);
  });

  it('that got privileges meanwhile is not touched', async () => {
    const user = await danaUser();
    await execa('gpasswd', ['-a', user.name, 'sudo']);
    for (const action of ['CREATE', 'SUSPEND', 'DELETE'])
      expect(await provision('dana', action)).toMatchObject({
        code: 'EUNSUPPORTED',
        message: expect.stringContaining('is in the group sudo'),
      });
    await execa('gpasswd', ['-d', user.name, 'sudo']);
  });

  it('is deleted with its servers first, and the answer says what went', async () => {
    const user = await danaUser();
    const [server] = (await refresh(service, idOf('dana'))).tmuxServers ?? [];
    const gone = await provision('dana', 'DELETE');
    expect(gone.ended[0]?.pid).toBe(server?.pid);
    expect(gone.removed).toContain(`the home ${user.home}`);
    expect(gone.member).toMatchObject({ osUser: null, disabled: false });
    expect(gone.auditEvent.message).toContain(`ended ${server?.pid}`);
    expect((await accountOf(user.name)).exists).toBe(false);
    const members = (await lookAtMembers(service)).members;
    expect(members.get('dana')).toMatchObject({ osUser: null, tmuxServers: [] });
  });

  it('that was half made when the service was killed is completed by the next call', async () => {
    // Whoever holds the registry's lock keeps the program waiting between its look and its act.
    const lock = join(program.registry, '.lock');
    const holder = execa('flock', [lock, 'sleep', '60'], { reject: false });
    const ours = (verb: string) => () =>
      processesWhere(({ command }) => command.endsWith(`${program.program} ${verb}`));
    const asked = provision('cut', 'CREATE').catch(() => undefined);
    const seen = await eventually(async () => {
      const found = await ours('look')();
      return found.length > 0 ? found : undefined;
    }, 'the program waits');
    expect(seen.length).toBeGreaterThan(0);
    await endHolder(holder.pid);
    await eventually(
      async () => ((await accountOf(program.account('cut'))).exists ? true : undefined),
      'the account is being made',
    );
    process.kill(service.pid, 'SIGKILL');
    for (const { pid } of [...(await ours('create')())]) {
      // It was done already: then all that is missing is the member's side.
      signalSeen(pid, 'SIGKILL');
    }
    await asked;
    service = await start();
    const done = await provision('cut', 'CREATE');
    expect(done).toMatchObject({ member: { osUser: program.account('cut') } });
    expect((await accountOf(program.account('cut'))).exists).toBe(true);
    const record = await rows('cut');
    expect(record?.slice(0, 2)).toEqual(['OUTCOME SUCCEEDED', 'INTENT']);
    expect(record?.filter((row) => row === 'INTENT')).toHaveLength(2);
    expect(record).not.toContain('OUTCOME FAILED');
  });

  async function danaUser() {
    const account = await accountOf(program.account('dana'));
    const { uid, gid, home } = account;
    return { name: program.account('dana'), uid, gid, home };
  }

  async function endHolder(pid: number | undefined) {
    const children = await processesWhere(({ command }) => command === 'sleep 60');
    const { stdout } = await execa('ps', ['-o', 'pid=', '--ppid', String(pid)], { reject: false });
    const own = new Set(stdout.split(/\s+/).map(Number));
    for (const child of children.filter((each) => own.has(each.pid)))
      signalSeen(child.pid, 'SIGTERM');
  }
});
