import { describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { eventually } from '../support/tmux-server.ts';
import { repository, startOwnMachine } from './own-machine.ts';

/** The service as a unit of a user's own manager, in local mode, as a user would write it. */

const node = `${repository}/node_modules/.bin/node ${repository}/bin/muxwarden.js`;
const unit = `[Service]
Environment=MUXWARDEN_PORT=0
ExecStart=${node} serve
`;

describe.skipIf(lacks('root', 'systemctl', 'unshare', 'dbus-daemon', 'tmux'))(
  'a unit of a user',
  () => {
    it('is restarted from within by that manager, and the tmux server of the user goes on', async () => {
      await using machine = await startOwnMachine();
      await machine.sh('useradd --create-home mw-user; loginctl enable-linger mw-user');
      const uid = await machine.sh('id -u mw-user');
      const environment = { HOME: '/home/mw-user', XDG_RUNTIME_DIR: `/run/user/${uid}` };
      const as = (script: string, input?: string) =>
        machine.sh(script, {
          ...{ user: 'mw-user', environment, timeout: 90_000 },
          ...(input === undefined ? {} : { input }),
        });
      const main = () => as('systemctl --user show muxwarden -p MainPID --value');
      await as(
        'cd; mkdir -p .config/systemd/user; cat >.config/systemd/user/muxwarden.service',
        unit,
      );
      await as('tmux new-session -d');
      const tmux = await as('pgrep -x "tmux: server"');
      await eventually(
        () =>
          as('systemctl --user daemon-reload').then(
            () => true,
            () => false,
          ),
        "the user's manager runs",
      );
      await as('systemctl --user start muxwarden');
      await eventually(
        () => as('cat ~/.local/state/muxwarden/service.json').catch(() => ''),
        'the unit serves',
        50_000,
      );
      const before = await main();
      expect(await as(`${node} restart`)).toMatch(
        /^The service runs again, as process \d+ at http/,
      );
      const after = await main();
      expect(after).not.toBe(before);
      expect(await as('systemctl --user show muxwarden -p NRestarts --value')).toBe('0');
      expect(await as('pgrep -x -f "[^ ]*/node [^ ]+ [^ ]*/muxwarden.js serve"')).toBe(after);
      expect(await as('pgrep -x "tmux: server"')).toBe(tmux);
    }, 150_000);
  },
);
