import { isEnumType } from 'graphql';
import { describe, expect, it } from 'vitest';
import { schema } from '../../src/schema/index.ts';
import type { LocalFleet } from '../../src/tmux/local-fleet.ts';
import type { PaneCloseReason } from '../../src/tmux/pane-events.ts';
import { restartRequest } from '../support/acting-member.ts';
import { type LocalFleetFixture, localFleet } from '../support/local-fleet.ts';
import { type PaneEvent, paneIdOf, transports, watchPane } from '../support/pane-clients.ts';
import { processTable } from '../support/process-table.ts';
import { memberUuid } from '../support/synthetic-fleet.ts';
import { type Service, startServiceOn } from '../support/synthetic-service.ts';
import { eventually, type TmuxServer } from '../support/tmux-server.ts';

/** How each end of a stream really comes about, and that both transports tell it once, last. */
interface Lab extends AsyncDisposable {
  readonly local: LocalFleetFixture;
  readonly service: Service<LocalFleet>;
  readonly tmux: TmuxServer;
  /** Of the pane that is watched. */
  readonly tmuxId: string;
}

async function startLab(): Promise<Lab> {
  const stack = new AsyncDisposableStack();
  const local = stack.use(
    await localFleet({
      memberIds: [memberUuid(1)],
      environment: { MUXWARDEN_LINGER_MS: '200' },
    }),
  );
  const tmux = await local.tmux({ command: ['while sleep 0.05; do echo SECRET; done'] });
  // Who loses a session would be moved to another one.
  await tmux.run('set-option', '-g', 'detach-on-destroy', 'off');
  await tmux.run('new-session', '-d', '-s', 'watched', 'exec cat');
  const command = 'echo on the screen; read x; exit 3';
  const words = ['split-window', '-dPF', '#{pane_id}', '-t', 'watched:', command];
  const tmuxId = await tmux.run(...words);
  const service = stack.use(await startServiceOn(local.fleet));
  service.accounts.add('ann', 'ADMIN');
  return {
    local,
    service,
    tmux,
    tmuxId,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const ends: Readonly<Record<PaneCloseReason, (lab: Lab) => Promise<unknown>>> = {
  EXITED: ({ tmux, tmuxId }) => tmux.run('send-keys', '-t', tmuxId, 'Enter'),
  PANE_KILLED: ({ tmux, tmuxId }) => tmux.run('kill-pane', '-t', tmuxId),
  SESSION_KILLED: ({ tmux }) => tmux.run('kill-session', '-t', '=watched'),
  async SERVER_RESTARTED({ local }) {
    using act = await local.fleet.prepareRestartServer(restartRequest(local.server()));
    await act.run();
  },
  SERVER_LOST: ({ tmux }) => tmux.end(),
  PERMISSION_WITHDRAWN: async ({ service }) => service.accounts.let('ann', undefined),
  SERVICE_DRAINING: ({ service }) => service.server.stop(5_000),
};

it('every reason of the schema is produced here', () => {
  const reasons = schema.getType('PaneCloseReason');
  if (!isEnumType(reasons)) throw new Error('no enum');
  expect(Object.keys(ends).sort()).toEqual(
    reasons
      .getValues()
      .map(({ name }) => name)
      .sort(),
  );
});

describe.each(Object.entries(ends))('%s', (reason, bringAbout) => {
  it('is told once, last, on both transports, and nothing of anybody else comes', async () => {
    await using lab = await startLab();
    const pane = await paneIdOf(lab.service.query, lab.tmuxId);
    const readings = Object.values(transports).map((subscribe) => {
      const seen: PaneEvent[] = [];
      const done = (async () => {
        for await (const event of subscribe(lab.service.url, watchPane, { pane })) seen.push(event);
      })();
      return { seen, done };
    });
    for (const { seen } of readings) await eventually(() => seen.length > 0, 'the screen');
    await bringAbout(lab);
    for (const { seen, done } of readings) {
      await done;
      const closed = seen.filter(({ __typename }) => __typename === 'PaneClosed');
      expect(closed).toEqual([expect.objectContaining({ closeReason: reason })]);
      expect(seen.at(-1)).toBe(closed[0]);
      const bytes = seen.map(({ data }) => Buffer.from(data ?? '', 'base64').toString()).join('');
      expect(bytes).toContain('on the screen');
      expect(bytes).not.toContain('SECRET');
    }
    if (reason === 'SERVER_LOST' || reason === 'SERVER_RESTARTED') return;
    const clients = () => lab.tmux.run('list-clients');
    await eventually(async () => (await clients()) === '', 'nobody of ours is left');
  });
});

it.each(Object.entries(transports))(
  'watching over %s never makes a tmux server',
  async (_, subscribe) => {
    await using lab = await startLab();
    const pane = await paneIdOf(lab.service.query, lab.tmuxId);
    await lab.tmux.end();
    const seen: PaneEvent[] = [];
    for (let time = 0; time < 3; time++) {
      for await (const event of subscribe(lab.service.url, watchPane, { pane })) seen.push(event);
      if (time === 1) await lab.local.refresh();
    }
    expect(seen.map(({ code }) => code)).toEqual(['ESTALE', 'ESTALE', 'ESTALE']);
    const alive = (await processTable()).filter(({ words }) => words.includes(lab.tmux.socket));
    expect(alive).toEqual([]);
  },
);
