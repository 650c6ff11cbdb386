import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Audit } from '../../src/audit/audit.ts';
import { ClaimClock } from '../../src/audit/claim-clock.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import type { AuditEvent } from '../../src/audit/record.ts';
import {
  type Reauthentication,
  ReauthenticationRequiredError,
} from '../../src/auth/reauthentication.ts';
import type { Viewer } from '../../src/auth/viewer.ts';
import type { Context } from '../../src/resolvers/context.ts';
import { restartPane } from '../../src/resolvers/restart-pane.ts';
import { type RestartTmuxServer, restartTmuxServer } from '../../src/resolvers/restart-server.ts';
import {
  ListingUnknownError,
  NotFoundError,
  OutcomeUnknownError,
  StaleGenerationError,
  TmuxServerBusyError,
  TmuxServerStuckError,
  UnsupportedError,
  WorkingDirectoryMissingError,
} from '../../src/tmux/errors.ts';
import {
  actingContext,
  bootId,
  generation,
  member,
  pathHex,
  ScriptedFleet,
  satisfied,
  serverRestart,
  state,
  viewer,
} from '../support/acting.ts';
import { keptLog } from '../support/audit.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';

describe('an act', () => {
  let test: TestDatabase;
  let audit: Audit;
  let fleet: ScriptedFleet;
  const log = keptLog();
  const admin = member('ADMIN', 'admin');
  const alice = member('DEVELOPER', 'alice');
  const bob = member('ANALYST', 'bob');
  const members = [admin, alice, bob];
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
  });
  afterAll(() => test[Symbol.asyncDispose]());
  beforeEach(async () => {
    audit = await openAudit(test.config.stateDir, test.database, log);
    fleet = new ScriptedFleet();
  });
  afterEach(() => audit[Symbol.asyncDispose]());

  const as = (who: Viewer, parts: Partial<Parameters<typeof actingContext>[0]> = {}): Context =>
    actingContext({ audit, fleet, viewer: who, members, ...parts });
  const server = { memberId: alice.id, pathHex };
  const input = (change: Partial<RestartTmuxServer> = {}): RestartTmuxServer => ({
    ...serverRestart(alice, randomUUID()),
    reason: 'it leaks',
    ...change,
  });
  const pane = { ...server, generation, pane: 3 };
  const since = async (sequence: number): Promise<readonly AuditEvent[]> => {
    const { edges } = await audit.page({ visibleTo: null }, 400);
    return edges
      .map(({ event }) => event)
      .filter((event) => event.sequence > sequence)
      .sort((a, b) => a.sequence - b.sequence);
  };
  const last = async () => (await audit.page({ visibleTo: null }, 1)).edges[0]?.event.sequence ?? 0;
  const said = ({ phase, outcome, code }: AuditEvent) =>
    [phase, outcome, code].filter(Boolean).join(' ');

  it('leaves an intent and an outcome, and answers with the outcome', async () => {
    const before = await last();
    const context = as(viewer(alice));
    const answer = await restartTmuxServer(context, input({ force: true }));
    expect(answer).toMatchObject({
      __typename: 'RestartTmuxServerPayload',
      survivors: [{ pid: 7, command: 'sleep' }],
      notRestored: [{ what: 'option', detail: 'unknown here' }],
      auditEvent: { phase: 'OUTCOME', outcome: 'SUCCEEDED' },
      server: { view: { ref: server, status: 'UNKNOWN' } },
    });
    const [begun, ended, ...more] = await since(before);
    expect(more).toEqual([]);
    expect(begun).toMatchObject({
      phase: 'INTENT',
      outcome: null,
      action: 'RESTART_TMUX_SERVER',
      actorId: alice.id,
      actorKeyId: context.viewer.credentialId,
      actorAddress: '192.0.2.7',
      actorAgent: 'test\\x1b[31m agent',
      memberId: alice.id,
      targetLabel: 'alice: /tmp/tmux-1000/default',
      statedReason: 'it leaks',
      requestId: 'request-1',
      before: state(),
      facts: { pathHex, expectedGeneration: generation, force: true, restore: 'LAYOUT' },
    });
    expect(ended).toMatchObject({
      phase: 'OUTCOME',
      outcome: 'SUCCEEDED',
      intentId: begun?.id,
      operationId: begun?.operationId,
      before: state(),
      after: { pid: 200 },
      survivors: [{ pid: 7, command: 'sleep' }],
    });
  });

  it('is done once for 50 parallel calls with one key, with one answer', async () => {
    const before = await last();
    fleet.run = async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      throw new OutcomeUnknownError('no telling');
    };
    const one = input();
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => restartTmuxServer(as(viewer(alice)), one)),
    );
    expect(fleet.ran).toHaveLength(1);
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toMatchObject({ __typename: 'OutcomeUnknownError', code: 'EUNKNOWN' });
    expect((await since(before)).map(said)).toEqual(['INTENT', 'OUTCOME UNKNOWN EUNKNOWN']);
    // And after UNKNOWN it is not done again.
    expect(await restartTmuxServer(as(viewer(alice)), one)).toEqual(answers[0]);
    expect(fleet.ran).toHaveLength(1);
  });

  it('is done once for 50 parallel calls with different keys, and the others are told who runs', async () => {
    const before = await last();
    // The act runs until all others have their answer: a call that arrives after it may act again.
    let refused = 0;
    const othersAnswered = Promise.withResolvers<void>();
    const { run } = fleet;
    fleet.run = async (request) => {
      await othersAnswered.promise;
      return await run(request);
    };
    const answers = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const answer = await restartTmuxServer(as(viewer(alice)), input());
        refused += 1;
        if (refused === 49) othersAnswered.resolve();
        return answer;
      }),
    );
    expect(fleet.ran).toHaveLength(1);
    const conflicts = answers.filter(({ __typename }) => __typename === 'OperationInProgressError');
    expect(conflicts).toHaveLength(49);
    expect(conflicts[0]).toMatchObject({ code: 'EINPROGRESS', operationId: fleet.ran[0] });
    const rows = await since(before);
    expect(rows.filter((row) => said(row) === 'OUTCOME FAILED EINPROGRESS')).toHaveLength(49);
    expect(rows.filter(({ phase }) => phase === 'INTENT')).toHaveLength(1);
    expect(rows).toHaveLength(51);
  });

  it('gives the first answer again, also after a restart of the service, and to its actor alone', async () => {
    const one = input({ password: 'first' });
    const first = await restartTmuxServer(as(viewer(alice)), one);
    const again = await restartTmuxServer(as(viewer(alice)), { ...one, password: undefined });
    expect(again).toEqual(first);
    await audit[Symbol.asyncDispose]();
    audit = await openAudit(test.config.stateDir, test.database, log);
    expect(await restartTmuxServer(as(viewer(alice)), one)).toEqual(first);
    expect(fleet.ran).toHaveLength(1);
    // Another actor, or another mutation, has keys of its own.
    await restartTmuxServer(as(viewer(admin)), one);
    await restartPane(as(viewer(alice)), {
      pane,
      idempotencyKey: one.idempotencyKey,
      reason: null,
    });
    expect(fleet.ran).toHaveLength(3);
  });

  it.each<[string, Partial<RestartTmuxServer>]>([
    ['force', { force: true }],
    ['generation', { expectedGeneration: `${bootId}:101:1` }],
    ['reason', { reason: 'another' }],
    ['restore', { restore: 'NONE' }],
    ['commands', { restoreCommands: [{ pane, command: ['top'] }] }],
  ])('refuses the same key with another %s', async (_, change) => {
    const one = input();
    await restartTmuxServer(as(viewer(alice)), one);
    const before = await last();
    const answer = await restartTmuxServer(as(viewer(alice)), { ...one, ...change });
    expect(answer).toMatchObject({ __typename: 'IdempotencyConflictError', code: 'EIDEMPOTENCY' });
    expect(fleet.ran).toHaveLength(1);
    expect((await since(before)).map(said)).toEqual(['OUTCOME FAILED EIDEMPOTENCY']);
  });

  it('refuses the same key with another input also while the first call runs, which goes on', async () => {
    const one = input();
    const refused = Promise.withResolvers<void>();
    const { run } = fleet;
    fleet.run = async (request) => {
      // Not for ever, or a call that joins it would never be told.
      await Promise.race([refused.promise, new Promise((resolve) => setTimeout(resolve, 1_000))]);
      return await run(request);
    };
    const first = restartTmuxServer(as(viewer(alice)), one);
    const other = await restartTmuxServer(as(viewer(alice)), { ...one, force: true });
    refused.resolve();
    expect(other).toMatchObject({ __typename: 'IdempotencyConflictError' });
    expect(await first).toMatchObject({ __typename: 'RestartTmuxServerPayload' });
    expect(fleet.ran).toHaveLength(1);
  });

  it('forgets a key after 24 h that were counted, not by a time of day', async () => {
    const one = input();
    await restartTmuxServer(as(viewer(alice)), one);
    const { pool, drizzle } = test.database;
    const look = () => new ClaimClock(drizzle).forgetOldClaims();
    await pool.query(`update idempotency_keys set created_at = now() - interval '9 years'`);
    await pool.query(`update claim_clock set ms = ms + 24 * 3600000`);
    await look();
    await restartTmuxServer(as(viewer(alice)), one);
    expect(fleet.ran).toHaveLength(1);
    await pool.query(`update claim_clock set ms = ms + 5 * 60000`);
    await look();
    await restartTmuxServer(as(viewer(alice)), { ...one, force: true });
    expect(fleet.ran).toHaveLength(2);
  });

  const refusals = [
    [new StaleGenerationError(generation, null), 'ESTALE', { currentGeneration: null }],
    [
      new TmuxServerStuckError(4_711, 'STOPPED', '/tmp/s', false, 'It is stopped.'),
      'ETMUXSTUCK',
      { pid: 4_711, status: 'STOPPED', socketPath: '/tmp/s' },
    ],
    [new TmuxServerBusyError(['%0: vim runs']), 'EBUSY', { evidence: ['%0: vim runs'] }],
    [new ListingUnknownError('EACCES', new Date(5)), 'ELISTING', { reason: 'EACCES' }],
    [new NotFoundError(), 'ENOTFOUND', {}],
    [new UnsupportedError('no tmux', '3.0'), 'EUNSUPPORTED', { tmuxVersion: '3.0' }],
  ] as const;
  it.each(refusals)(
    'refused before its intent (%s) leaves one row and no key',
    async (error, code, fields) => {
      const before = await last();
      const one = input();
      fleet.prepare = () => Promise.reject(error);
      const answer = await restartTmuxServer(as(viewer(alice)), one);
      expect(answer).toMatchObject({ code, message: error.message, ...fields });
      const [row, ...more] = await since(before);
      expect(more).toEqual([]);
      expect(row).toMatchObject({ phase: 'OUTCOME', outcome: 'FAILED', code, intentId: null });
      if (code === 'ETMUXSTUCK')
        expect(row?.before).toMatchObject({ pid: 4_711, status: 'STOPPED' });
      fleet.prepare = async () => {};
      expect(await restartTmuxServer(as(viewer(alice)), one)).toMatchObject({
        __typename: 'RestartTmuxServerPayload',
      });
    },
  );

  it.each([
    [new TmuxServerStuckError(9, 'SPINNING', '/s', true, 'm'), 'OUTCOME UNKNOWN ETMUXSTUCK'],
    [new TmuxServerStuckError(9, 'SPINNING', '/s', false, 'm'), 'OUTCOME FAILED ETMUXSTUCK'],
    [new StaleGenerationError(generation, null), 'OUTCOME FAILED ESTALE'],
    [new OutcomeUnknownError('sent'), 'OUTCOME UNKNOWN EUNKNOWN'],
    [new Error('a defect'), 'OUTCOME UNKNOWN EUNKNOWN'],
  ])('that ends in %s is %s, and a repeat says the same', async (error, row) => {
    const before = await last();
    fleet.run = () => Promise.reject(error);
    const one = input();
    const answer = await restartTmuxServer(as(viewer(alice)), one);
    const rows = await since(before);
    expect(rows.map(said)).toEqual(['INTENT', row]);
    expect(await restartTmuxServer(as(viewer(alice)), one)).toEqual(answer);
    expect(fleet.ran).toHaveLength(1);
    if (answer.__typename === 'OutcomeUnknownError') expect(answer.auditEventId).toBe(rows[1]?.id);
  });

  it('that ended a server which could not be started again is a payload, and FAILED on record', async () => {
    const before = await last();
    const run = fleet.run;
    fleet.run = async (request) => ({
      ...(await run(request)),
      after: state({ generation: null, pid: null, status: 'ABSENT', sessionCount: null }),
      notRestored: [{ what: 'everything', detail: 'no tmux' }],
    });
    const answer = await restartTmuxServer(as(viewer(alice)), input());
    expect(answer).toMatchObject({
      __typename: 'RestartTmuxServerPayload',
      notRestored: [{ what: 'everything', detail: 'no tmux' }],
      auditEvent: { outcome: 'FAILED', after: { status: 'ABSENT' } },
    });
    expect((await since(before)).map(said)).toEqual(['INTENT', 'OUTCOME FAILED']);
  });

  it('of somebody without authority is DENIED on record, and "not there" and "not yours" are one answer', async () => {
    const before = await last();
    const elsewhere = { memberId: randomUUID(), pathHex };
    const foreign = { memberId: bob.id, pathHex };
    const [absent, notYours] = await Promise.all(
      [elsewhere, foreign].map((target) =>
        restartTmuxServer(as(viewer(alice)), input({ server: target })),
      ),
    );
    expect(absent).toEqual(notYours);
    expect(absent).toMatchObject({ __typename: 'NotFoundError' });
    await expect(restartTmuxServer(as(viewer(bob)), input())).rejects.toMatchObject({
      code: 'FORBIDDEN',
    });
    await expect(
      restartTmuxServer(as(viewer(alice, { scopes: new Set(['READ', 'ACT']) })), input()),
    ).rejects.toMatchObject({ code: 'FORBIDDEN' });
    await expect(
      restartPane(as(viewer(alice, { scopes: new Set(['READ', 'RESTART']) })), {
        pane,
        idempotencyKey: 'k',
        reason: null,
      }),
    ).rejects.toMatchObject({ code: 'FORBIDDEN' });
    expect(fleet.ran).toEqual([]);
    const rows = await since(before);
    expect(rows.map(said).sort()).toEqual([
      'OUTCOME DENIED',
      'OUTCOME DENIED',
      'OUTCOME DENIED',
      'OUTCOME DENIED ENOTFOUND',
      'OUTCOME DENIED ENOTFOUND',
    ]);
    expect(rows.map(({ intentId }) => intentId).filter(Boolean)).toEqual([]);
  });

  it('without the password is DENIED on record before anything is looked at; a pane needs none', async () => {
    const before = await last();
    const reauthentication: Reauthentication = {
      ...satisfied,
      require: async (_viewer, { password }, address, act) => {
        if (password !== 'right') throw new ReauthenticationRequiredError('Wrong.', 4);
        return await satisfied.require(_viewer, { password }, address, act);
      },
    };
    fleet.prepare = async () => expect.fail('looked at');
    const context = as(viewer(alice), { reauthentication });
    const answer = await restartTmuxServer(context, input({ password: 'guess-canary' }));
    expect(answer).toMatchObject({ code: 'EREAUTH', attemptsLeft: 4, retryAt: null });
    fleet.prepare = async () => {};
    expect(await restartTmuxServer(context, input({ password: 'right' }))).toMatchObject({
      __typename: 'RestartTmuxServerPayload',
    });
    expect(
      await restartPane(context, { pane, idempotencyKey: randomUUID(), reason: null }),
    ).toMatchObject({ __typename: 'RestartPanePayload', pane: null });
    expect((await since(before)).map(said)).toEqual([
      'OUTCOME DENIED EREAUTH',
      'INTENT',
      'OUTCOME SUCCEEDED',
      'INTENT',
      'OUTCOME SUCCEEDED',
    ]);
  });

  it('on a pane without its directory answers ENOCWD, and keeps the pane that it had for a repeat', async () => {
    const before = await last();
    const context = as(viewer(alice));
    fleet.prepare = () => Promise.reject(new WorkingDirectoryMissingError('/gone', 'gone'));
    const key = randomUUID();
    expect(await restartPane(context, { pane, idempotencyKey: key, reason: null })).toMatchObject({
      code: 'ENOCWD',
      path: '/gone',
    });
    fleet.prepare = async () => {};
    fleet.runPane = async () => ({
      pane,
      after: state(),
      survivors: [{ pid: 5, command: 'x\0y' }],
    });
    const first = await restartPane(context, { pane, idempotencyKey: key, reason: null });
    expect(first).toMatchObject({ pane, survivors: [{ pid: 5 }] });
    const again = await restartPane(context, { pane, idempotencyKey: key, reason: null });
    expect(again).toMatchObject({ pane, auditEvent: { outcome: 'SUCCEEDED' } });
    expect((await since(before)).map(said)).toEqual([
      'OUTCOME FAILED ENOCWD',
      'INTENT',
      'OUTCOME SUCCEEDED',
    ]);
  });

  it.each<[string, Partial<RestartTmuxServer>, RegExp]>([
    ['an empty key', { idempotencyKey: '' }, /input\.idempotencyKey/],
    ['a key of 65 characters', { idempotencyKey: 'k'.repeat(65) }, /input\.idempotencyKey/],
    ['a key with a letter that is not ASCII', { idempotencyKey: 'é' }, /input\.idempotencyKey/],
    ['a key with a line end', { idempotencyKey: 'a\nb' }, /input\.idempotencyKey/],
    ['a reason of 501 characters', { reason: '世'.repeat(501) }, /input\.reason/],
    ['no generation', { expectedGeneration: 'x' }, /input\.expectedGeneration/],
    [
      'a command for a pane of another generation',
      { restoreCommands: [{ pane: { ...pane, generation: `${bootId}:1:1` }, command: ['a'] }] },
      /input\.restoreCommands\[0\]\.paneId/,
    ],
    [
      'two commands for one pane',
      {
        restoreCommands: [
          { pane, command: ['a'] },
          { pane, command: ['b'] },
        ],
      },
      /input\.restoreCommands\[1\]\.paneId/,
    ],
    [
      'an empty command',
      { restoreCommands: [{ pane, command: [] }] },
      /restoreCommands\[0\]\.command/,
    ],
    [
      'a command with NUL',
      { restoreCommands: [{ pane, command: ['a\0b'] }] },
      /restoreCommands\[0\]\.command/,
    ],
    [
      'commands without a restore',
      { restore: 'NONE', restoreCommands: [{ pane, command: ['a'] }] },
      /input\.restoreCommands/,
    ],
  ])('with %s is BAD_USER_INPUT and leaves no row', async (_, change, names) => {
    const before = await last();
    await expect(restartTmuxServer(as(viewer(alice)), input(change))).rejects.toMatchObject({
      code: 'BAD_USER_INPUT',
      message: expect.stringMatching(names),
    });
    expect(await since(before)).toEqual([]);
  });

  it('with a key of 64 characters and a reason of 500 is done', async () => {
    const answer = await restartTmuxServer(
      as(viewer(alice)),
      input({ idempotencyKey: `~ ${randomUUID()}`.padEnd(64, 'k'), reason: '世'.repeat(500) }),
    );
    expect(answer.__typename).toBe('RestartTmuxServerPayload');
  });

  it('leaves no password and no command text in database, journal or log', async () => {
    const canaries = ['password-canary-1', 'command-canary-2'];
    await restartTmuxServer(
      as(viewer(alice)),
      input({
        password: canaries[0],
        restoreCommands: [{ pane, command: ['mysql', canaries[1] ?? ''] }],
      }),
    );
    const { rows } = await test.database.pool.query<{ text: string }>(
      `select (select string_agg(e::text, '') from audit_events e) || (select string_agg(k::text, '') from idempotency_keys k) as text`,
    );
    const journal = await readFile(join(test.config.stateDir, 'audit/journal.jsonl'), 'utf8');
    const everything = [rows[0]?.text, journal, log.lines.join('\n')].join('\n');
    expect(everything).toContain('restoreCommandsDigest');
    for (const canary of [...canaries, 'guess-canary', 'right'])
      expect(everything).not.toContain(`${canary}"`);
    for (const canary of [...canaries, 'guess-canary']) expect(everything).not.toContain(canary);
  });

  it('never happens without an intent: counted over this whole file', async () => {
    const { rows } = await test.database.pool.query(
      `select count(*)::int as n from audit_events o where o.phase = 'OUTCOME' and o.intent_id is not null
         and not exists (select 1 from audit_events i where i.id = o.intent_id and i.phase = 'INTENT' and i.sequence < o.sequence)`,
    );
    expect(rows).toEqual([{ n: 0 }]);
    expect(await audit.openIntents()).toEqual([]);
  });
});
