import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Member } from '../../src/members/member.ts';
import {
  type AccountsService,
  type By,
  startAccountsService,
} from '../support/accounts-service.ts';

/** Who may, and what is said where nobody would start it again; by a real unit: tests/cli/install-system. */

const password = 'canary-correct-horse';
const document = `mutation($input: RestartServiceInput!) { restartService(input: $input) {
  __typename ... on RestartServicePayload { unit recorded auditEvent { outcome } } ... on UserError { code message } } }`;

describe('restartService', () => {
  let service: AccountsService;
  let root: Member;
  beforeAll(async () => {
    service = await startAccountsService();
    root = await service.add('root-1', 'ADMIN', password);
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  const restart = (by: By, input: object = {}) =>
    service.ask<{ __typename: string; code?: string; message?: string }>(
      document,
      { input: { idempotencyKey: randomUUID(), reason: 'new settings', ...input } },
      by,
    );
  const lastRow = async () => (await service.rows()).at(-1);

  it('is EUNSUPPORTED where no service manager started the service, on record, and nothing happens', async () => {
    const key = await service.key(root);
    expect(await restart({ key })).toEqual({
      __typename: 'UnsupportedError',
      code: 'EUNSUPPORTED',
      message: expect.stringMatching(/not started by a service manager|not its main process/),
    });
    expect(await lastRow()).toMatchObject({
      ...{ action: 'RESTART_SERVICE', phase: 'OUTCOME', outcome: 'FAILED', code: 'EUNSUPPORTED' },
      ...{ actorId: root.id, memberId: null, statedReason: 'new settings', intentId: null },
    });
    expect(await restart({ key })).toMatchObject({ code: 'EUNSUPPORTED' });
  });

  it.each(['ANALYST', 'DEVELOPER'] as const)('is not for %s', async (role) => {
    const member = await service.add(`m-${role.toLowerCase()}`, role, password);
    const key = await service.key(member);
    await expect(restart({ key }, { password })).rejects.toThrow(/FORBIDDEN|not allowed|may not/i);
    expect(await lastRow()).toMatchObject({
      action: 'RESTART_SERVICE',
      outcome: 'DENIED',
      actorId: member.id,
    });
  });

  it('needs the password again, or a key with ADMIN', async () => {
    const key = await service.key(root, { scopes: ['READ', 'RESTART'] });
    await expect(restart({ key })).rejects.toThrow();
    const unproved = await service.key(root, { madeByAdmin: false });
    expect(await restart({ key: unproved })).toMatchObject({ code: 'EREAUTH' });
    expect(await lastRow()).toMatchObject({ outcome: 'DENIED', code: 'EREAUTH' });
    expect(await restart({ key: unproved }, { password })).toMatchObject({ code: 'EUNSUPPORTED' });
  });

  it('takes a grant for it, and for it alone', async () => {
    const key = await service.key(root, { madeByAdmin: false });
    const grantFor = (action: string) =>
      service
        .ask<{ grant: string }>(
          'mutation($input: ReauthenticateInput!) { reauthenticate(input: $input) { ... on ReauthenticatePayload { grant } } }',
          { input: { password, action } },
          { key },
        )
        .then(({ grant }) => grant);
    expect(await restart({ key }, { grant: await grantFor('CREATE_MEMBER') })).toMatchObject({
      code: 'EREAUTH',
    });
    expect(await restart({ key }, { grant: await grantFor('RESTART_SERVICE') })).toMatchObject({
      code: 'EUNSUPPORTED',
    });
  });
});
