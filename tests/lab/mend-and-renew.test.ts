import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { stopProcess } from '../support/stop-process.ts';
import { eventually, startTicks, type TmuxServer, tmuxBinary } from '../support/tmux-server.ts';
import { type Lab, startLab } from './lab.ts';
import { addMembers } from './members-page.ts';
import type { Service } from './service.ts';

/**
 * What an operator does after an upgrade, through GraphQL and sudo: look at what would be restarted,
 * restart that, and let a frozen server run. The service may signal nobody's processes itself.
 */

const renew = `mutation ($input: RestartIdleTmuxServersInput!) {
  restartIdleTmuxServers(input: $input) {
    __typename
    ... on UserError { code message }
    ... on RestartIdleTmuxServersPayload {
      operationId complete
      results {
        outcome generation evidence recorded
        wouldEnd { pid }
        error { code }
        tmuxServer { id pid socketPath status version generation member { login } }
      }
    }
  }
}`;
const mend = `mutation ($input: RepairTmuxServerInput!) {
  repairTmuxServer(input: $input) {
    __typename
    ... on UserError { code message }
    ... on RepairTmuxServerPayload { recorded tmuxServer { pid status sessions { name } } }
  }
}`;
const events = `query ($operationId: ID!) {
  auditEvents(first: 50, filter: { operationId: $operationId }) {
    nodes { phase outcome code operationId member { login } }
  }
}`;

interface Renewed {
  readonly restartIdleTmuxServers: {
    readonly __typename: string;
    readonly operationId: string;
    readonly complete: boolean;
    readonly results: readonly {
      readonly outcome: string;
      readonly generation: string;
      readonly recorded: boolean;
      readonly wouldEnd: readonly { readonly pid: number }[];
      readonly tmuxServer: {
        readonly id: string;
        readonly pid: number;
        readonly socketPath: string;
        readonly version: string;
        readonly generation: string;
        readonly member: { readonly login: string };
      };
    }[];
  };
}

describe.skipIf(lacks('root', 'sudo', 'visudo', 'tmux'))('after an upgrade of tmux', () => {
  let lab: Lab;
  let service: Service;
  const servers = new Map<string, TmuxServer>();
  const pids = new Map<string, number>();

  beforeAll(async () => {
    lab = await startLab();
    const { alice, bob, carol } = lab.users;
    const [old, current] = ['3.3a', '3.5a'] as const;
    servers.set('idle', await lab.startTmuxAs(alice, { version: old, name: 'idle' }));
    const command = ['exec sleep 1000'];
    servers.set('busy', await lab.startTmuxAs(bob, { version: old, name: 'busy', command }));
    servers.set('current', await lab.startTmuxAs(carol, { version: current, name: 'current' }));
    servers.set('frozen', await lab.startTmuxAs(carol, { version: old, name: 'frozen' }));
    for (const [name, server] of servers) pids.set(name, await server.pid());
    service = await lab.startService({
      environment: {
        MUXWARDEN_TMUX_BIN: tmuxBinary(current) ?? '',
        MUXWARDEN_IDLE_AFTER_MS: '1000',
      },
    });
    await addMembers(lab, service, ['alice', 'bob', 'carol']);
    await stopProcess(pidOf('frozen'));
  }, 120_000);
  afterAll(() => lab?.[Symbol.asyncDispose]());

  const pidOf = (name: string) => pids.get(name) ?? expect.fail(name);
  const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1);

  async function restartIdle(input: Readonly<Record<string, unknown>>) {
    const { data, errors } = await service.query<Renewed>(renew, { input });
    expect(errors).toEqual([]);
    const answer = data?.restartIdleTmuxServers ?? expect.fail();
    expect(answer).toMatchObject({ __typename: 'RestartIdleTmuxServersPayload', complete: true });
    const outcomes = Object.fromEntries(
      answer.results.map(({ tmuxServer, outcome }) => [nameOf(tmuxServer.socketPath), outcome]),
    );
    return { answer, outcomes };
  }

  const expected = {
    idle: 'RESTARTED',
    busy: 'SKIPPED_BUSY',
    current: 'SKIPPED_CURRENT',
    frozen: 'SKIPPED_UNKNOWN',
  };

  it('a dry run names what would be restarted, and changes nothing', async () => {
    const { answer } = await eventually(async () => {
      const dry = await restartIdle({ idempotencyKey: 'dry', dryRun: true });
      return JSON.stringify(dry.outcomes) === JSON.stringify({ ...dry.outcomes, ...expected })
        ? dry
        : undefined;
    }, 'the idle one to be quiet for long enough');
    const [would] = answer.results.filter(({ outcome }) => outcome === 'RESTARTED');
    expect(would).toMatchObject({ recorded: false, tmuxServer: { pid: pidOf('idle') } });
    expect(would?.wouldEnd).toHaveLength(1);
    for (const [name, pid] of pids) expect([name, await startTicks(pid)]).not.toContain(undefined);
    const { data } = await service.query(events, { operationId: answer.operationId });
    expect(data).toEqual({ auditEvents: { nodes: [] } });
  });

  it('the real run restarts that one alone, each is on record, all of one operation', async () => {
    const { answer, outcomes } = await restartIdle({ idempotencyKey: 'real' });
    expect(outcomes).toEqual(expected);
    expect(await startTicks(pidOf('idle'))).toBeUndefined();
    for (const name of ['busy', 'current', 'frozen'])
      expect([name, await startTicks(pidOf(name))]).not.toContain(undefined);
    const renewed = answer.results.find(({ outcome }) => outcome === 'RESTARTED')?.tmuxServer;
    expect(renewed).toMatchObject({ version: '3.5a', member: { login: 'alice' } });
    expect(await servers.get('idle')?.pid()).toBe(renewed?.pid);
    const { data } = await service.query<{
      auditEvents: { nodes: { phase: string; outcome: string; member: { login: string } }[] };
    }>(events, { operationId: answer.operationId });
    const rows = data?.auditEvents.nodes.map(
      ({ member, phase, outcome }) => `${member.login} ${phase} ${outcome}`,
    );
    expect(rows?.sort()).toEqual([
      'alice INTENT null',
      'alice OUTCOME SUCCEEDED',
      'bob OUTCOME SKIPPED',
      'carol OUTCOME SKIPPED',
      'carol OUTCOME SKIPPED',
    ]);
    const again = await restartIdle({ idempotencyKey: 'real' });
    expect(again.answer.operationId).toBe(answer.operationId);
    expect(await servers.get('idle')?.pid()).toBe(renewed?.pid);
  });

  it('the frozen one is let run by the member’s helper, with the same pid and sessions', async () => {
    const { answer } = await restartIdle({ idempotencyKey: 'look', dryRun: true });
    const frozen = answer.results.find(
      ({ tmuxServer }) => nameOf(tmuxServer.socketPath) === 'frozen',
    );
    const input = {
      tmuxServerId: frozen?.tmuxServer.id,
      expectedGeneration: frozen?.generation,
      idempotencyKey: 'thaw',
      repair: 'CONTINUE_STOPPED',
    };
    const { data, errors } = await service.query(mend, { input });
    expect(errors).toEqual([]);
    expect(data).toMatchObject({
      repairTmuxServer: {
        __typename: 'RepairTmuxServerPayload',
        recorded: true,
        tmuxServer: { pid: pidOf('frozen') },
      },
    });
    expect(await servers.get('frozen')?.run('list-sessions', '-F', '#{session_name}')).toBe('main');
    const nothing = await service.query(mend, { input: { ...input, idempotencyKey: 'again' } });
    expect(nothing.data).toMatchObject({ repairTmuxServer: { code: 'EUNSUPPORTED' } });
  });
});
