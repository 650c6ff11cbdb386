import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { chainFiles, inspect } from '../../src/audit/inspection.ts';
import type { SealedRow } from '../../src/audit/row.ts';
import { journalRows, rowsAmong } from '../../src/audit/sources.ts';
import { type CrashPoint, crashPoints } from '../support/crash-points.ts';
import { openTestDatabase, type PostgresServer, startPostgresServer } from '../support/postgres.ts';
import type { ProcessEntry } from '../support/process-table.ts';
import { scratchDirectory } from '../support/scratch.ts';
import {
  processesIn,
  type ServiceProcess,
  startServiceProcess,
} from '../support/service-process.ts';
import { rounds } from '../support/tier.ts';
import { eventually, startTmux } from '../support/tmux-server.ts';

/**
 * A real service on a real tmux server is killed within a restart, at each point of it. What the
 * client was told, what is on record and what runs are held against each other: each acknowledged act
 * is on record with its outcome; what was begun is closed by the next start, which begins nothing; the
 * server of the member is the old one or the new one, or the record says that there is none.
 */
const dieAt = join(import.meta.dirname, '../support/die-at.ts');
const look = '{ tmuxServers { nodes { id generation } } panes(first: 1) { nodes { id } } }';
const mutation = (name: 'restartPane' | 'restartTmuxServer') => {
  const type = `${name[0]?.toUpperCase()}${name.slice(1)}`;
  return `mutation($input: ${type}Input!) { ${name}(input: $input) {
    __typename ... on ${type}Payload { recorded auditEvent { operationId } } ... on UserError { code message } } }`;
};

interface Seen {
  readonly tmuxServers: { readonly nodes: readonly { id: string; generation: string }[] };
  readonly panes: { readonly nodes: readonly { id: string }[] };
}
interface Acted {
  readonly __typename: string;
  readonly recorded?: boolean;
  readonly auditEvent?: { readonly operationId: string };
}
/** A restart that its service did not outlive. */
interface Crash {
  readonly point: CrashPoint;
  readonly input: object;
  readonly servers: readonly number[];
  readonly intents: number;
}

/** One service after the other on one state directory, each killed at the next point, from the first on. */
async function lane(server: PostgresServer, deaths: number, first: number) {
  await using folder = await scratchDirectory();
  await using test = await openTestDatabase('server', { server });
  const stateDir = join(folder.path, 'state');
  const databaseUrl = test.config.databaseUrl ?? expect.fail();
  const acknowledged: string[] = [];

  await using tmux = await startTmux({ directory: folder.path, session: 'first' });
  /** Also what a service that died in the middle left out. */
  const populate = async () => {
    for (const session of ['first', 'second', 'third'])
      await tmux.run('new-session', '-d', '-s', session, 'exec sh').catch(() => undefined);
  };
  const isServer = ({ name }: ProcessEntry) => name === 'tmux: server';
  const serversNow = async () =>
    (await processesIn(folder.path)).filter(isServer).map(({ pid }) => pid);
  const journal = async () => {
    const rows: SealedRow[] = [];
    for await (const row of rowsAmong(journalRows(join(stateDir, 'audit/journal.jsonl'))))
      rows.push(row);
    return rows;
  };
  const intentsNow = async () => (await journal()).filter(({ phase }) => phase === 'INTENT').length;

  const act = async (service: ServiceProcess, name: keyof Names, input: object) => {
    const { data, errors } = await service.query<Record<string, Acted>>(mutation(name), { input });
    const answer = data?.[name];
    if (answer === undefined) throw new Error(JSON.stringify(errors));
    if (answer.recorded === true) acknowledged.push(answer.auditEvent?.operationId ?? '');
    return answer;
  };

  /** Acts once, and then restarts the server until the service is dead. */
  const die = async (service: ServiceProcess, point: CrashPoint): Promise<Crash> => {
    const before = await serversNow();
    const seen = await eventually(async () => {
      const { data } = await service.query<Seen>(look);
      return data?.panes.nodes.length === 1 ? data : undefined;
    }, 'its pane is listed');
    const key = () => ({ idempotencyKey: randomUUID() });
    const pane = { paneId: seen.panes.nodes[0]?.id, ...key() };
    expect(await act(service, 'restartPane', pane)).toMatchObject({ recorded: true });
    const { id: tmuxServerId, generation } = seen.tmuxServers.nodes[0] ?? {};
    const input = { tmuxServerId, expectedGeneration: generation, ...key() };
    const answer = await act(service, 'restartTmuxServer', input).catch(() => undefined);
    if (point.name === 'it is answered') {
      expect(answer).toMatchObject({ __typename: 'RestartTmuxServerPayload', recorded: true });
      service.kill('SIGKILL');
    } else expect([point.name, answer]).toEqual([point.name, undefined]);
    expect(await service.ended).toBe('SIGKILL');
    const servers = await eventually(async () => {
      const left = await processesIn(folder.path);
      const isAlone = left.length === (point.server === 'none' ? 0 : 1) && left.every(isServer);
      return isAlone ? left.map(({ pid }) => pid) : undefined;
    }, `${point.name}: no process of ours, and of the member's servers: ${point.server}`);
    if (point.server !== 'none')
      expect(before.includes(servers[0] ?? 0)).toBe(point.server === 'old');
    return { point, input, servers, intents: await intentsNow() };
  };

  /** What the next start made of it, which begins nothing, and neither does the same call again. */
  const expectSettled = async (service: ServiceProcess, crash: Crash) => {
    const { name, server: there, outcome, repeated } = crash.point;
    const rows = await journal();
    for (const { id } of rows.filter(({ phase }) => phase === 'INTENT'))
      expect(rows.filter(({ intentId }) => intentId === id)).toHaveLength(1);
    const last = rows.at(-1);
    if (repeated === null) expect([name, last?.action]).toEqual([name, 'RESTART_PANE']);
    else {
      const end = ['RESTART_TMUX_SERVER', 'OUTCOME', outcome];
      expect([name, last?.action, last?.phase, last?.outcome]).toEqual([name, ...end]);
      if (outcome === 'UNKNOWN') {
        expect(last?.message).toMatch(evidence[there]);
        // Nothing brings them back: whoever does has to be told which.
        for (const session of ['first', 'second', 'third'])
          expect(last?.message).toContain(`"${session}" in "`);
      }
      const again = await act(service, 'restartTmuxServer', crash.input);
      expect([name, again.__typename]).toEqual([name, repeated]);
    }
    expect(await serversNow()).toEqual(crash.servers);
    expect(await intentsNow()).toBe(crash.intents);
  };

  let crash: Crash | undefined;
  for (let death = 0; death <= deaths; death += 1) {
    const point = crashPoints[(first + death) % crashPoints.length] ?? expect.fail();
    await using service = await startServiceProcess({
      folder: folder.path,
      module: dieAt,
      environment: {
        DATABASE_URL: databaseUrl,
        MUXWARDEN_LISTING_INTERVAL_MS: '100',
        MUXWARDEN_TEST_DIE_AT: death < deaths ? point.name : '',
      },
    });
    if (crash !== undefined) await expectSettled(service, crash);
    if (death === deaths) break;
    await populate();
    crash = await die(service, point);
  }
  const [files] = await chainFiles(stateDir);
  const places = await inspect(files ?? expect.fail(), test.database.drizzle);
  expect(places.map(({ place }) => place)).toEqual(['journal', 'table', 'journal and table']);
  expect(places.flatMap(({ findings }) => findings)).toEqual([]);
  const rows = await journal();
  const ends = (operation: string) =>
    rows.filter((row) => row.operationId === operation).map((row) => row.outcome ?? row.phase);
  const lost = acknowledged.filter((each) => ends(each).join() !== 'INTENT,SUCCEEDED');
  return { acknowledged: acknowledged.length, lost };
}

type Names = Record<Parameters<typeof mutation>[0], unknown>;

const evidence = {
  old: /It is the same process: the server was not restarted/,
  none: /Now: ABSENT.* It is not the process of before/,
  new: /Now: RUNNING.* It is not the process of before/,
};

it('killed at any of 12 points of a restart: nothing acknowledged is lost, nothing is done twice, nothing is left', {
  timeout: rounds(300_000, 3_600_000),
}, async () => {
  expect(crashPoints).toHaveLength(12);
  await using server = await startPostgresServer();
  // Each point twice in all, or 20 times.
  const half = crashPoints.length / 2;
  const deaths = rounds(2 * half, 10 * crashPoints.length);
  const [one, other] = await Promise.all([lane(server, deaths, 0), lane(server, deaths, half)]);
  const lost = [...one.lost, ...other.lost];
  console.log(
    `${2 * deaths} deaths of the service at 12 points; acknowledged acts ${one.acknowledged + other.acknowledged}, lost ${lost.length}`,
  );
  expect(lost).toEqual([]);
});
