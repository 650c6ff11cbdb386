import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Member } from '../../src/members/member.ts';
import { LastAdminError } from '../../src/members/members-lock.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import {
  type AccountsService,
  type By,
  browser,
  startAccountsService,
} from '../support/accounts-service.ts';

const password = 'canary-correct-horse';
const payload = `{
  __typename
  ... on MemberPayload {
    member { id login role osUser disabled } auditEvent { outcome targetLabel member { login } }
  }
  ... on UserError { code message }
}`;
const mutations = {
  createMember: `mutation($input: CreateMemberInput!) { createMember(input: $input) ${payload} }`,
  updateMember: `mutation($input: UpdateMemberInput!) { updateMember(input: $input) ${payload} }`,
  deleteMember: `mutation($input: DeleteMemberInput!) { deleteMember(input: $input) ${payload} }`,
};
interface Changed {
  readonly __typename: string;
  readonly code?: string;
  readonly member: Omit<Member, 'createdAt'>;
  readonly auditEvent: { readonly outcome: string; readonly targetLabel: string };
}

let service: AccountsService;
let root: Member;
let admin: By;
beforeAll(async () => {
  service = await startAccountsService();
  root = await service.add('root-1', 'ADMIN');
  admin = { key: await service.key(root) };
});
afterAll(() => service?.[Symbol.asyncDispose]());

const idOf = ({ id }: Pick<Member, 'id'>) => encodeId({ type: 'Member', id });
const change = (name: keyof typeof mutations, input: object, by: By = admin) =>
  service.ask<Changed>(mutations[name], { input: { idempotencyKey: randomUUID(), ...input } }, by);
const lastRows = async (number: number) => (await service.rows()).slice(-number);
const login = () => `m-${randomUUID().slice(0, 8)}`;
const add = () => service.add(login(), 'DEVELOPER', password);

describe('createMember', () => {
  it('adds one that can sign in, once for one key, and is on record', async () => {
    const name = login();
    const input = {
      idempotencyKey: randomUUID(),
      login: name,
      role: 'ANALYST',
      osUser: `os-${name}`,
      initialPassword: 'canary-initial-password',
    };
    const made = await change('createMember', input);
    expect(made).toMatchObject({
      member: { login: name, role: 'ANALYST', osUser: `os-${name}`, disabled: false },
      auditEvent: { outcome: 'SUCCEEDED', targetLabel: name, member: { login: name } },
    });
    expect(await change('createMember', input)).toEqual(made);
    expect(
      await change('createMember', { ...input, initialPassword: 'canary-other-password' }),
    ).toMatchObject({ code: 'EIDEMPOTENCY' });
    const [intent, outcome] = (await lastRows(3)).slice(0, 2);
    expect(intent).toMatchObject({
      phase: 'INTENT',
      action: 'CREATE_MEMBER',
      actorId: root.id,
      targetId: made.member.id,
      facts: { login: name, role: 'ANALYST', hasPassword: true },
    });
    expect(outcome?.memberId).toBe(intent?.memberId);
    const entered = await service.post(
      `mutation { signIn(input: { login: "${name}", password: "canary-initial-password" }) { __typename } }`,
      {},
      { headers: browser(service.url) },
    );
    expect(entered.data).toEqual({ signIn: { __typename: 'SignInPayload' } });
  });

  it('names a login, Linux user or password that can’t be used', async () => {
    const taken = await add();
    const good = { login: login(), role: 'DEVELOPER' };
    for (const [input, said] of [
      [{ login: 'Alice' }, /input.login/],
      [{ login: '#(touch x)' }, /input.login/],
      [{ login: taken.login }, /input.login` can't be: .*already/],
      [{ osUser: 'a b' }, /input.osUser/],
      [{ osUser: taken.osUser }, /input.osUser.*already/],
      [{ initialPassword: 'short' }, /input.initialPassword/],
    ] as const)
      await expect(change('createMember', { ...good, ...input })).rejects.toThrow(said);
    expect(service.accounts.memberByLogin(good.login)).toBeUndefined();
  });

  it('is for an ADMIN who has shown to be there, with a credential that is not narrowed', async () => {
    const input = { login: login(), role: 'ADMIN' };
    const analyst = await service.add(login(), 'ANALYST', password);
    for (const key of [
      await service.key(analyst),
      await service.key(root, { scopes: ['READ', 'STREAM', 'ACT', 'RESTART'] }),
      await service.key(root, { memberIds: [root.id] }),
    ])
      await expect(change('createMember', input, { key })).rejects.toThrow(/FORBIDDEN/);
    expect(await lastRows(1)).toMatchObject([{ action: 'CREATE_MEMBER', outcome: 'DENIED' }]);
    const key = await service.key(root, { madeByAdmin: false });
    expect(await change('createMember', input, { key })).toMatchObject({ code: 'EREAUTH' });
    expect(await lastRows(1)).toMatchObject([{ outcome: 'DENIED', code: 'EREAUTH' }]);
  });
});

describe('updateMember', () => {
  it('changes what is given, signs out for a new role, and is on record', async () => {
    const member = await add();
    const changed = await change('updateMember', { memberId: idOf(member), role: 'ANALYST' });
    expect(changed.member).toMatchObject({ role: 'ANALYST', osUser: member.osUser });
    const [intent, outcome] = await lastRows(2);
    expect(intent).toMatchObject({
      action: 'UPDATE_MEMBER',
      memberId: member.id,
      facts: { role: 'ANALYST' },
    });
    expect(intent?.facts).not.toHaveProperty('disabled');
    expect(outcome?.outcome).toBe('SUCCEEDED');
    const none = await change('updateMember', { memberId: idOf(member), osUser: null });
    expect(none.member.osUser).toBeNull();
    const out = await change('updateMember', { memberId: idOf(member), disabled: true });
    expect(out.member).toMatchObject({ disabled: true, role: 'ANALYST' });
  });

  it('refuses to change nothing, and what would lock its caller out', async () => {
    for (const input of [{}, { role: 'DEVELOPER' }, { disabled: true }, { role: null }])
      await expect(change('updateMember', { memberId: idOf(root), ...input })).rejects.toThrow(
        /BAD_USER_INPUT/,
      );
    await expect(change('deleteMember', { memberId: idOf(root) })).rejects.toThrow(/yourself/);
    expect(service.accounts.member(root.id)).toMatchObject({ role: 'ADMIN', disabled: false });
  });

  it('says alike that a member is not there and is not the caller’s', async () => {
    const developer = { key: await service.key(await add()) };
    const there = await change('updateMember', { memberId: idOf(root), role: 'ADMIN' }, developer);
    const id = idOf({ id: randomUUID() });
    expect(await change('updateMember', { memberId: id, role: 'ADMIN' }, developer)).toEqual(there);
    expect(there).toMatchObject({ code: 'ENOTFOUND' });
    expect(await change('deleteMember', { memberId: id })).toMatchObject({ code: 'ENOTFOUND' });
  });
});

describe('deleteMember', () => {
  it('signs out, revokes the keys, frees the login, and answers again what it answered', async () => {
    const member = await add();
    const key = await service.key(member);
    const input = { idempotencyKey: randomUUID(), memberId: idOf(member), reason: 'left' };
    const gone = await change('deleteMember', input);
    expect(gone).toMatchObject({
      member: { login: member.login },
      auditEvent: { outcome: 'SUCCEEDED', targetLabel: member.login, member: null },
    });
    expect((await service.post('{ viewer { role } }', {}, { key })).status).toBe(401);
    expect(await change('deleteMember', input)).toEqual(gone);
    expect(
      await service.ask(
        'query($login: String!) { member(login: $login) { id } }',
        {
          login: member.login,
        },
        admin,
      ),
    ).toBeNull();
    await service.ask('{ apiKeys { id member { login } } }', {}, admin);
    const again = await change('createMember', { login: member.login, role: 'DEVELOPER' });
    expect(again.member.id).not.toBe(idOf(member));
  });
});

describe('the last enabled ADMIN', () => {
  it('stays one, whoever takes turns with whom', async () => {
    const others = await Promise.all([1, 2].map(() => service.add(login(), 'ADMIN')));
    const admins = [root, ...others];
    const ends = await Promise.allSettled([
      service.members.change(root.id, { role: 'ANALYST' }),
      service.members.change(others[0]?.id ?? '', { disabled: true }),
      service.members.delete(others[1]?.id ?? ''),
    ]);
    const refused = ends.filter((each) => each.status === 'rejected');
    expect(refused).toHaveLength(1);
    expect(refused[0]?.reason).toBeInstanceOf(LastAdminError);
    const left = (await service.members.list()).filter(
      ({ role, disabled }) => role === 'ADMIN' && !disabled,
    );
    expect(left).toHaveLength(1);
    expect(admins.map(({ id }) => id)).toContain(left[0]?.id);
  });

  it('is told to whoever of two ADMINs comes second', async () => {
    const [one, other] = await Promise.all([1, 2].map(() => service.add(login(), 'ADMIN')));
    if (one === undefined || other === undefined) throw new Error('no members');
    const keys = await Promise.all([service.key(one), service.key(other)]);
    for (const each of await service.members.list())
      if (each.role === 'ADMIN' && each.id !== one.id && each.id !== other.id)
        await service.members.delete(each.id);
    await service.accounts.reload();
    const ends = await Promise.allSettled([
      change('deleteMember', { memberId: idOf(other) }, { key: keys[0] }),
      change('deleteMember', { memberId: idOf(one) }, { key: keys[1] }),
    ]);
    const done = ends.filter(
      (each) => each.status === 'fulfilled' && each.value.__typename === 'MemberPayload',
    );
    expect(done).toHaveLength(1);
  });
});
