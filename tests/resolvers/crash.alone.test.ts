import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { openAudit } from '../../src/audit/open-audit.ts';
import { restartPane } from '../../src/resolvers/restart-pane.ts';
import { restartTmuxServer } from '../../src/resolvers/restart-server.ts';
import {
  actingContext,
  generation,
  member,
  pathHex,
  ScriptedFleet,
  serverRestart,
  state,
  viewer,
} from '../support/acting.ts';
import { keptLog } from '../support/audit.ts';
import { waitedForCoreMs } from '../support/core-wait.ts';
import { openTestDatabase } from '../support/postgres.ts';
import { eventually } from '../support/tmux-server.ts';

const alice = member('DEVELOPER', 'alice');

describe('a database that goes away within an act', () => {
  it('the answer says what was done and that it is not on record, and the record follows', async () => {
    await using test = await openTestDatabase('server');
    const server = test.server ?? expect.fail();
    const log = keptLog();
    await using audit = await openAudit(test.config.stateDir, test.database, log);
    const fleet = new ScriptedFleet();
    const context = actingContext({ audit, fleet, viewer: viewer(alice), members: [alice] });
    const pane = { memberId: alice.id, pathHex, generation, pane: 1 };
    fleet.runPane = async () => {
      await server.stop();
      return { pane, after: state(), survivors: [] };
    };
    const key = randomUUID();
    const one = { pane, idempotencyKey: key, reason: null };
    const answer = await restartPane(context, one);
    expect(answer).toMatchObject({ __typename: 'RestartPanePayload', auditEvent: null, pane });
    expect(audit.problems().map(({ code }) => code)).toContain('AUDIT_OUTCOME_MISSING');
    expect(log.lines.join('\n')).toMatch(/audit alarm/);
    const [began, waited] = [performance.now(), await waitedForCoreMs('self')];
    for (const refused of await Promise.all([
      restartPane(context, one),
      restartPane(context, { ...one, idempotencyKey: randomUUID() }),
      restartTmuxServer(context, serverRestart(alice, randomUUID())),
    ]))
      expect(refused).toMatchObject({ __typename: 'AuditUnavailableError', code: 'EAUDIT' });
    const ms = performance.now() - began;
    expect(ms - ((await waitedForCoreMs('self')) - waited)).toBeLessThan(2_000);
    expect(fleet.ran).toHaveLength(1);
    await server.start();
    const again = await eventually(async () => {
      const repeated = await restartPane(context, one);
      return repeated.__typename === 'RestartPanePayload' ? repeated : undefined;
    }, 'the record follows');
    expect(again).toMatchObject({ pane, auditEvent: { outcome: 'SUCCEEDED' } });
    expect(fleet.ran).toHaveLength(1);
    expect(await audit.openIntents()).toEqual([]);
    expect(audit.problems()).toEqual([]);
  });
});
