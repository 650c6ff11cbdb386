import { type Command, exactly, readWords, UsageError } from './command.ts';
import { install } from './install/install.ts';
import { uninstall } from './install/uninstall.ts';

export const installSystem: Command = {
  summary: 'install the service for members who are Linux users',
  help: `muxwarden install-system [--dry-run | --uninstall]

As root: makes the account muxwarden and the group muxwarden-members, copies program and helper to
/opt/muxwarden, and lays down the rule for sudo, the settings (/etc/muxwarden/environment), the state
folder (/var/lib/muxwarden), the units and the command /usr/local/sbin/muxwarden. Says each step. What
is as it should be is left alone; what is not ours is never overwritten; when a step fails,
everything is as it was before. Nothing is started. docs/deployment.md goes on from there.

  --dry-run     only say what would be done
  --uninstall   stop the service and take away what was made. Members, their tmux servers and the
                record in /var/lib/muxwarden stay`,
  async run(words, io) {
    const { values, positionals } = readWords(words, {
      'dry-run': { type: 'boolean', default: false },
      uninstall: { type: 'boolean', default: false },
    });
    exactly(positionals);
    if (values['dry-run'] && values.uninstall)
      throw new UsageError('--dry-run and --uninstall do not go together.');
    if (values.uninstall) return uninstall(io);
    await install(io, values['dry-run']);
    return 0;
  },
};
