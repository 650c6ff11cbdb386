import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ExecutionResult, graphql, parse, subscribe } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Audit } from '../../src/audit/audit.ts';
import { openAudit } from '../../src/audit/open-audit.ts';
import type { AuditEvent } from '../../src/audit/record.ts';
import { encodeId } from '../../src/resolvers/id.ts';
import { schema } from '../../src/schema/index.ts';
import { OutcomeUnknownError } from '../../src/tmux/errors.ts';
import {
  actingContext,
  generation,
  member,
  pathHex,
  ScriptedFleet,
  viewer,
} from '../support/acting.ts';
import { entry, keptLog } from '../support/audit.ts';
import { openTestDatabase, type TestDatabase } from '../support/postgres.ts';

const restart = `mutation ($input: RestartTmuxServerInput!) {
  restartTmuxServer(input: $input) {
    __typename
    ... on RestartTmuxServerPayload {
      tmuxServer { socketPath status member { login } }
      auditEvent { id phase outcome intentId } recorded
      survivors { pid command } notRestored { what detail }
    }
    ... on UserError { code message }
    ... on OutcomeUnknownError { auditEvent { outcome operationId } }
  }
}`;

describe('the audited mutations and the audit log through GraphQL', () => {
  let test: TestDatabase;
  let audit: Audit;
  const fleet = new ScriptedFleet();
  const alice = member('DEVELOPER', 'alice');
  const admin = member('ADMIN', 'admin');
  beforeAll(async () => {
    test = await openTestDatabase('embedded');
    audit = await openAudit(test.config.stateDir, test.database, keptLog());
  });
  afterAll(async () => {
    await audit[Symbol.asyncDispose]();
    await test[Symbol.asyncDispose]();
  });
  const context = (of = alice) =>
    actingContext({ audit, fleet, viewer: viewer(of), members: [alice, admin] });
  const server = { memberId: alice.id, pathHex };
  const input = () => ({
    tmuxServerId: encodeId({ type: 'TmuxServer', ref: server }),
    expectedGeneration: generation,
    idempotencyKey: randomUUID(),
  });
  const run = async (source: string, variables = {}, of = alice): Promise<ExecutionResult> =>
    await graphql({ schema, source, variableValues: variables, contextValue: context(of) });

  it('restart a server, and find both rows by their ids', async () => {
    const { data, errors } = await run(restart, { input: input() });
    expect(errors).toBeUndefined();
    expect(data?.restartTmuxServer).toMatchObject({
      __typename: 'RestartTmuxServerPayload',
      tmuxServer: { socketPath: '/tmp/tmux-1000/default', member: { login: 'alice' } },
      auditEvent: { phase: 'OUTCOME', outcome: 'SUCCEEDED' },
      recorded: true,
      survivors: [{ pid: 7, command: 'sleep' }],
      notRestored: [{ what: 'option', detail: 'unknown here' }],
    });
    const log = await run(`{ auditEvents(first: 2) {
      nodes { id chain sequence at phase outcome action actor { login } actorKeyId actorAddress actorAgent
        member { login } targetId targetLabel code statedReason message operationId requestId intentId
        before { generation pid version status sessionCount } after { pid status } survivors { pid command } hash }
      pageInfo { hasNextPage endCursor } } }`);
    expect(log.errors).toBeUndefined();
    const { nodes } = nodesOf(log.data?.auditEvents);
    expect(nodes).toMatchObject([
      {
        phase: 'OUTCOME',
        outcome: 'SUCCEEDED',
        after: { pid: 200, status: 'RUNNING' },
        survivors: [{ pid: 7, command: 'sleep' }],
      },
      { phase: 'INTENT', outcome: null, actor: { login: 'alice' }, before: { pid: 100 } },
    ]);
    const [outcome, intent] = nodes;
    expect(outcome?.intentId).toBe(intent?.id);
    const found = await run(
      'query ($id: ID!) { node(id: $id) { id ... on AuditEvent { phase } } }',
      {
        id: intent?.id,
      },
    );
    expect(found.data?.node).toEqual({ id: intent?.id, phase: 'INTENT' });
  });

  it('show an outcome that is not known, with its row', async () => {
    const run0 = fleet.run;
    fleet.run = () => Promise.reject(new OutcomeUnknownError('Sent, not confirmed.'));
    const { data } = await run(restart, { input: input() });
    fleet.run = run0;
    expect(data?.restartTmuxServer).toMatchObject({
      __typename: 'OutcomeUnknownError',
      code: 'EUNKNOWN',
      auditEvent: { outcome: 'UNKNOWN' },
    });
  });

  it('name the argument that is wrong', async () => {
    for (const [change, name] of [
      [{ tmuxServerId: encodeId({ type: 'Member', id: alice.id }) }, 'input.tmuxServerId'],
      [{ tmuxServerId: 'x' }, 'input.tmuxServerId'],
      [{ idempotencyKey: 'k'.repeat(65) }, 'input.idempotencyKey'],
      [{ restoreCommands: [{ paneId: 'x', command: ['a'] }] }, 'input.restoreCommands[0].paneId'],
    ] as const) {
      const { errors } = await run(restart, { input: { ...input(), ...change } });
      expect(errors?.[0]?.message).toContain(`\`${name}\``);
    }
    for (const [filter, name] of [
      ['operationId: "x"', 'filter.operationId'],
      ['actorId: "x"', 'filter.actorId'],
      ['memberId: "x"', 'filter.memberId'],
    ]) {
      const { errors } = await run(`{ auditEvents(filter: { ${filter} }) { nodes { id } } }`);
      expect(errors?.[0]?.message).toContain(`\`${name}\``);
    }
  });

  it('give each viewer its own rows by every way', async () => {
    const { data } = await run(restart, { input: input() }, admin);
    const id = eventIdOf(data?.restartTmuxServer);
    const query = 'query ($id: ID!) { node(id: $id) { id } }';
    const bob = member('ANALYST', 'bob');
    expect((await run(query, { id }, admin)).data?.node).toEqual({ id });
    expect((await run(query, { id }, alice)).data?.node).toEqual({ id });
    expect((await run(query, { id }, bob)).data?.node).toBeNull();
    const rows = await run('{ auditEvents { nodes { id } } }', {}, bob);
    expect(rows.data?.auditEvents).toEqual({ nodes: [] });
  });

  describe('filter the log', () => {
    const bob = member('ANALYST', 'bob');
    const rows: AuditEvent[] = [];
    beforeAll(async () => {
      for (const [actorId, memberId] of [
        [alice.id, bob.id],
        [bob.id, bob.id],
        [bob.id, alice.id],
        [bob.id, null],
      ]) {
        rows.push(await audit.append(entry({ actorId, memberId })));
        // Each in a millisecond of its own, the last one's over too.
        await sleep(3);
      }
    });
    const at = (index: number) => rows[index]?.at.toISOString() ?? expect.fail();
    /** Which of the rows come, oldest first; none but them. */
    const shown = async (filter: object, of = admin) => {
      const query = `query ($filter: AuditEventFilter) {
        auditEvents(first: 100, filter: $filter) { nodes { id } } }`;
      const { data, errors } = await run(query, { filter }, of);
      expect(errors).toBeUndefined();
      const ids = nodesOf(data?.auditEvents).nodes.map(({ id }) => id);
      return ids
        .map((id) => rows.findIndex((row) => encodeId({ type: 'AuditEvent', id: row.id }) === id))
        .reverse();
    };
    const idOf = ({ id }: { id: string }) => encodeId({ type: 'Member', id });

    it('by the member that an act was on, and by who did it, each beside the other', async () => {
      const from = at(0);
      expect(await shown({ memberId: idOf(bob) })).toEqual([0, 1]);
      expect(await shown({ memberId: idOf(alice), from })).toEqual([2]);
      expect(await shown({ actorId: idOf(bob) })).toEqual([1, 2, 3]);
      expect(await shown({ actorId: idOf(alice), from })).toEqual([0]);
      expect(await shown({ actorId: idOf(bob), memberId: idOf(bob) })).toEqual([1]);
      expect(await shown({ memberId: idOf(member('DEVELOPER', 'nobody')) })).toEqual([]);
    });

    it('by time: the moment of `from` is in it, that of `to` is not', async () => {
      const later = (index: number) => new Date((rows[index]?.at.getTime() ?? 0) + 1).toISOString();
      expect(await shown({ from: at(0) })).toEqual([0, 1, 2, 3]);
      expect(await shown({ from: at(1) })).toEqual([1, 2, 3]);
      expect(await shown({ from: later(1) })).toEqual([2, 3]);
      expect(await shown({ from: at(0), to: at(2) })).toEqual([0, 1]);
      expect(await shown({ from: at(0), to: later(2) })).toEqual([0, 1, 2]);
      expect(await shown({ from: at(1), to: at(1) })).toEqual([]);
      expect(await shown({ from: at(2), to: at(1) })).toEqual([]);
      // The same moment, by another clock.
      const twoHoursOn = new Date((rows[1]?.at.getTime() ?? 0) + 7_200_000).toISOString();
      const abroad = twoHoursOn.replace('Z', '+02:00');
      expect(await shown({ from: abroad })).toEqual([1, 2, 3]);
    });

    it('within what the viewer may see, never beyond', async () => {
      expect(await shown({ actorId: idOf(bob) }, alice)).toEqual([2]);
      expect(await shown({ memberId: idOf(bob) }, alice)).toEqual([0]);
      expect(await shown({ memberId: idOf(alice), from: at(0) }, bob)).toEqual([2]);
      const mallory = member('ANALYST', 'mallory');
      expect(await shown({ memberId: idOf(bob) }, mallory)).toEqual([]);
    });
  });

  it('tell of a row that was added, with the cursor to go on from', async () => {
    const document = parse(
      'subscription ($after: String) { auditEventAdded(after: $after) { cursor auditEvent { phase } } }',
    );
    const follow = async (after?: string) => {
      const stream = await subscribe({
        schema,
        document,
        variableValues: { after },
        contextValue: context(),
      });
      if (!(Symbol.asyncIterator in stream)) return expect.fail(JSON.stringify(stream));
      return stream;
    };
    const stream = await follow();
    await run(restart, { input: input() });
    const first = addedOf((await stream.next()).value);
    expect(first.auditEvent.phase).toBe('INTENT');
    await stream.return?.(undefined);
    const again = await follow(first.cursor);
    expect(addedOf((await again.next()).value).auditEvent.phase).toBe('OUTCOME');
    await again.return?.(undefined);
  });
});

const nodesOf = (value: unknown) => value as { nodes: { id: string; intentId: string | null }[] };
const eventIdOf = (value: unknown) => (value as { auditEvent: { id: string } }).auditEvent.id;
const addedOf = (value: unknown) =>
  (value as { data: { auditEventAdded: { cursor: string; auditEvent: { phase: string } } } }).data
    .auditEventAdded;
