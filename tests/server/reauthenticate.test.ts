import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Grants } from '../../src/auth/grants.ts';
import { hashOf } from '../../src/auth/secret.ts';
import type { Member } from '../../src/members/member.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import {
  type AccountsService,
  type By,
  browser,
  cookieOf,
  startAccountsServiceOn,
} from '../support/accounts-service.ts';
import { bootId, generation, pathHex, ScriptedFleet } from '../support/acting.ts';
import { FakeClock } from '../support/fake-clock.ts';

const password = 'canary-correct-horse';
const reauthenticate = `mutation($input: ReauthenticateInput!) {
  reauthenticate(input: $input) {
    __typename
    ... on ReauthenticatePayload { grant expiresAt }
    ... on ReauthenticationRequiredError { code message attemptsLeft retryAt }
    ... on AuditUnavailableError { code }
  }
}`;
const provisionActions = ['CREATE', 'SUSPEND', 'RESUME', 'DELETE'];
const restart = `mutation($input: RestartTmuxServerInput!) {
  restartTmuxServer(input: $input) {
    __typename
    ... on RestartTmuxServerPayload { recorded auditEvent { outcome } }
    ... on UserError { code message }
  }
}`;

interface Restarted {
  readonly __typename: string;
  readonly code?: string;
}

let service: AccountsService<ScriptedFleet>;
let alice: Member;
let cookie: string;
let count = 0;
beforeAll(async () => {
  service = await startAccountsServiceOn(new ScriptedFleet());
});
afterAll(() => service?.[Symbol.asyncDispose]());
beforeEach(async () => {
  count += 1;
  alice = await service.add(`alice-${count}`, 'DEVELOPER', password);
  cookie = await session(alice);
});

async function session({ login }: Member): Promise<string> {
  const answer = await service.post(
    `mutation { signIn(input: { login: "${login}", password: "${password}" }) { __typename } }`,
    {},
    { headers: browser(service.url) },
  );
  return cookieOf(answer) ?? '';
}

const serverId = (owner: Member, path = pathHex) =>
  encodeId({ type: 'TmuxServer', ref: { memberId: owner.id, pathHex: path } });
const target = (change: object = {}) => ({
  tmuxServerId: serverId(alice),
  expectedGeneration: generation,
  ...change,
});
const ask = (input: object = {}, by: By = { cookie }) =>
  service.ask<{ __typename: string; grant: string; expiresAt: string; attemptsLeft: number }>(
    reauthenticate,
    { input: { password, action: 'RESTART_TMUX_SERVER', targets: [target()], ...input } },
    by,
  );
const restartBy = (grant: string, by: By = { cookie }, change: object = {}) =>
  service.ask<Restarted>(
    restart,
    { input: { ...target(), idempotencyKey: randomUUID(), grant, ...change } },
    by,
  );
const ran = () => service.fleet.ran.length;
const lastRows = async (number: number) => (await service.rows()).slice(-number);

describe('a grant', () => {
  it('stands for the password once, and only its hash is stored', async () => {
    const { grant, expiresAt, __typename } = await ask();
    expect(__typename).toBe('ReauthenticatePayload');
    const seconds = (Date.parse(expiresAt) - Date.now()) / 1_000;
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    const { rows } = await service.database.database.pool.query(
      'select token_hash, grants::text as all from grants where member_id = $1',
      [alice.id],
    );
    expect(rows).toHaveLength(1);
    expect(hashOf(grant).equals(rows[0].token_hash)).toBe(true);
    expect(rows[0].all).not.toContain(grant);

    const before = ran();
    const idempotencyKey = randomUUID();
    const first = await restartBy(grant, { cookie }, { idempotencyKey });
    expect(first).toMatchObject({ __typename: 'RestartTmuxServerPayload', recorded: true });
    // The same call again is the same answer; another act needs another grant.
    expect(await restartBy(grant, { cookie }, { idempotencyKey })).toEqual(first);
    expect(await restartBy(grant)).toMatchObject({ code: 'EREAUTH' });
    expect(ran()).toBe(before + 1);
    expect(await lastRows(1)).toMatchObject([
      { action: 'RESTART_TMUX_SERVER', outcome: 'DENIED', code: 'EREAUTH' },
    ]);
  });

  it('is for its action, targets, generations and credential alone', async () => {
    const before = ran();
    const other = { tmuxServerId: serverId(alice, Buffer.from('/tmp/b').toString('hex')) };
    const later = { expectedGeneration: `${bootId}:101:1001` };
    for (const [grant, change] of [
      [(await ask({ action: 'REPAIR_TMUX_SERVER' })).grant, {}],
      [(await ask()).grant, other],
      [(await ask()).grant, later],
      [(await ask({ targets: [target(), target(other)] })).grant, {}],
      ['A'.repeat(43), {}],
      ['', {}],
    ] as const)
      expect(await restartBy(grant, { cookie }, change)).toMatchObject({ code: 'EREAUTH' });
    const { grant } = await ask();
    const elsewhere = await session(alice);
    const key = await service.key(alice, { madeByAdmin: false });
    expect(await restartBy(grant, { cookie: elsewhere })).toMatchObject({ code: 'EREAUTH' });
    expect(await restartBy(grant, { key })).toMatchObject({ code: 'EREAUTH' });
    expect(ran()).toBe(before);
    // None of these used it up.
    expect(await restartBy(grant)).toMatchObject({ __typename: 'RestartTmuxServerPayload' });
  });

  it('for one of the four acts on an account serves none of the others', async () => {
    const boss = await service.add(`boss-${count}`, 'ADMIN', password);
    const by = { cookie: await session(boss) };
    const memberId = encodeId({ type: 'Member', id: alice.id });
    const provision = async (grant: string, action: string) =>
      (
        await service.ask<{ code: string }>(
          'mutation($input: ProvisionMemberInput!) { provisionMember(input: $input) { ... on UserError { code } } }',
          { input: { memberId, action, grant, idempotencyKey: randomUUID() } },
          by,
        )
      ).code;
    for (const provisionAction of provisionActions) {
      const about = { action: 'PROVISION_MEMBER', targets: null, memberId, provisionAction };
      const { grant } = await ask(about, by);
      expect((await lastRows(1))[0]?.facts).toMatchObject({ provision: provisionAction });
      // EUNSUPPORTED comes after the grant: no program for accounts is here.
      for (const action of provisionActions)
        expect([provisionAction, action, await provision(grant, action)]).toEqual([
          provisionAction,
          action,
          action === provisionAction ? 'EUNSUPPORTED' : 'EREAUTH',
        ]);
    }
  });

  it('is used up by the intent, and not by a refusal before it', async () => {
    const { grant } = await ask();
    service.fleet.prepare = () => Promise.reject(new (class extends Error {})('a defect'));
    await expect(restartBy(grant)).rejects.toThrow(/INTERNAL_SERVER_ERROR/);
    service.fleet.prepare = async () => {};
    const { append, intend } = service.audit;
    service.audit.intend = async () => {
      throw Object.assign(new Error('x'), { name: 'x' });
    };
    await expect(restartBy(grant)).rejects.toThrow(/INTERNAL_SERVER_ERROR/);
    Object.assign(service.audit, { append, intend });
    expect(await restartBy(grant)).toMatchObject({ __typename: 'RestartTmuxServerPayload' });
  });

  it('lets one of many calls through that come with it at once', async () => {
    const { grant } = await ask();
    const before = ran();
    const ends = await Promise.all(Array.from({ length: 10 }, () => restartBy(grant)));
    const done = ends.filter(({ __typename }) => __typename === 'RestartTmuxServerPayload');
    expect([done.length, ran() - before]).toEqual([1, 1]);
  });

  it('ends after 60 s, by the clock that does not jump as well, and with the sign-in', async () => {
    const clock = new FakeClock(Date.now());
    const grants = new Grants(service.database.database, clock);
    const key = await service.key(alice);
    const viewer = await service.accounts.authenticateKey(key);
    if (viewer === undefined) throw new Error('no viewer');
    const act = { action: 'DELETE_MEMBER', targets: [], memberId: alice.id };
    const { grant } = await grants.give(viewer, act);
    const fresh = await grants.give(viewer, act);
    expect(await grants.holds(viewer, grant, act)).toBe(true);
    await clock.advance(59_000);
    expect(await grants.holds(viewer, grant, act)).toBe(true);
    // Whoever looks from elsewhere goes by the stored end: nobody there removes it.
    const later = new FakeClock(clock.now() + 1_500);
    const elsewhere = new Grants(service.database.database, later);
    expect(await elsewhere.holds(viewer, grant, act)).toBe(false);
    expect(await elsewhere.use(viewer, grant, act)).toBe(false);
    await clock.advance(2_000);
    expect(await grants.use(viewer, grant, act)).toBe(false);
    clock.setBack(3_600_000);
    await expect.poll(() => grants.holds(viewer, fresh.grant, act)).toBe(false);

    const { grant: outOf } = await ask();
    await service.ask('mutation { signOut }', {}, { cookie });
    const again = await session(alice);
    expect(await restartBy(outOf, { cookie: again })).toMatchObject({ code: 'EREAUTH' });
  });
});

describe('reauthenticate', () => {
  it('shares the five misses with passwords in inputs, each DENIED on record', async () => {
    const wrong = { password: 'canary-wrong-horse' };
    const before = ran();
    expect(await ask(wrong)).toMatchObject({ attemptsLeft: 4 });
    for (const left of [3, 2])
      expect(await restartBy('', { cookie }, wrong)).toMatchObject({
        message: expect.stringContaining(`${left}`),
      });
    for (const left of [1, 0]) expect(await ask(wrong)).toMatchObject({ attemptsLeft: left });
    const rows = await lastRows(5);
    expect(rows.map(({ outcome }) => outcome)).toEqual(Array(5).fill('DENIED'));
    expect(rows[0]).toMatchObject({
      action: 'REAUTHENTICATE',
      code: 'EREAUTH',
      actorId: alice.id,
      facts: { action: 'RESTART_TMUX_SERVER', targets: 1, about: null },
    });
    expect(await ask()).toMatchObject({ attemptsLeft: 0 });
    expect(await restartBy('', { cookie }, { password })).toMatchObject({ code: 'EREAUTH' });
    expect(ran()).toBe(before);
  });

  it('says what a grant can be for', async () => {
    const refusals: readonly [object, RegExp][] = [
      [{ action: 'RESTART_PANE' }, /input.action/],
      [{ targets: [] }, /input.targets/],
      [{ targets: [target(), target()] }, /twice/],
      [{ targets: [target({ expectedGeneration: 'x' })] }, /targets\[0\].expectedGeneration/],
      [{ targets: [target({ tmuxServerId: 'x' })] }, /targets\[0\].tmuxServerId/],
      [{ memberId: encodeId({ type: 'Member', id: alice.id }) }, /input.memberId/],
      [{ action: 'CREATE_API_KEY', targets: null }, /input.memberId/],
      [{ action: 'CREATE_MEMBER' }, /input.targets/],
      [{ provisionAction: 'CREATE' }, /input.provisionAction/],
      [
        {
          ...{ action: 'PROVISION_MEMBER', targets: null },
          memberId: encodeId({ type: 'Member', id: alice.id }),
        },
        /input.provisionAction/,
      ],
    ];
    for (const [input, said] of refusals) await expect(ask(input)).rejects.toThrow(said);
  });

  it('has nothing for who has no password', async () => {
    const bare = await service.add(`bare-${count}`, 'DEVELOPER');
    const key = await service.key(bare);
    expect(await ask({}, { key })).toMatchObject({
      __typename: 'ReauthenticationRequiredError',
      message: expect.stringContaining(`muxwarden members passwd bare-${count}`),
    });
  });
});
