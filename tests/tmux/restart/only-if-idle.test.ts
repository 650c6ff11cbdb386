import { expect, it } from 'vitest';
import { TmuxServerBusyError } from '../../../src/tmux/errors.ts';
import type { MemberTmux } from '../../../src/tmux/member-tmux.ts';
import { prepareRestartServer } from '../../../src/tmux/restart/restart-server.ts';
import { actingMember, installedVersion, restartRequest } from '../../support/acting-member.ts';
import { stopProcess } from '../../support/stop-process.ts';
import { eventually, startTmux } from '../../support/tmux-server.ts';

const version = '3.3a';

async function world() {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startTmux({ version }));
  const member = stack.use(
    actingMember({
      directory: server.directory,
      installed: installedVersion(version),
      environment: { MUXWARDEN_IDLE_AFTER_MS: '1000' },
    }),
  );
  const view = await member.server(server.socket);
  const owned = stack.move();
  return { server, member, view, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

it('whoever comes back between the look and the act is left alone', async () => {
  await using it = await world();
  await eventually(async () => (await it.member.server(it.server.socket)).idle, 'it is idle');
  const start = async () => {
    await it.server.run('send-keys', '-t', '%0', 'sleep 1000', 'Enter');
    const running = '#{pane_current_command}';
    await eventually(
      async () => (await it.server.run('display-message', '-p', '-t', '%0', running)) === 'sleep',
      'it sleeps',
    );
  };
  const asked: string[] = [];
  const tmux = comingBack(it.member.tmux, async (request) => {
    asked.push(request.split(' ')[0] ?? '');
    if (request.startsWith('describe')) await start();
  });
  const request = restartRequest(it.view, { onlyIfIdle: true });
  const refused = await prepareRestartServer(tmux, request).catch((error: unknown) => error);
  expect(asked).toEqual(['describe']);
  expect(refused).toBeInstanceOf(TmuxServerBusyError);
  expect(refused).toMatchObject({
    evidence: expect.arrayContaining(['%0: sleep runs in the foreground']),
  });
  // And its lock is free again.
  using _lock = await it.member.tmux.locks.acquireAlone(it.view.ref.pathHex, 'later');
});

it('a server that is stopped is no idle one, whatever may be done to it', async () => {
  await using it = await world();
  await stopProcess(it.view.pid ?? expect.fail());
  const request = restartRequest(it.view, { onlyIfIdle: true, force: true });
  const refused = await prepareRestartServer(it.member.tmux, request).catch((error) => error);
  expect(refused).toMatchObject({
    name: 'TmuxServerBusyError',
    evidence: ['the tmux server is STOPPED'],
  });
});

/** The same member, on whose behalf something happens before each request that is not a snapshot. */
function comingBack(tmux: MemberTmux, before: (request: string) => Promise<void>): MemberTmux {
  const { helper } = tmux;
  const slow = new Proxy(helper, {
    get(target, name) {
      if (name !== 'ask') return Reflect.get(target, name, target);
      return async (...given: Parameters<typeof helper.ask>) => {
        await before(given[0]);
        return await target.ask(...given);
      };
    },
  });
  return new Proxy(tmux, {
    get(target, name) {
      if (name === 'helper') return slow;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
