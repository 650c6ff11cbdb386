import { type Command, exactly, readWords, UsageError } from './command.ts';
import { completeHookFolders } from './install/hook-folders.ts';
import { install } from './install/install.ts';
import { uninstall } from './install/uninstall.ts';

export const installSystem: Command = {
  summary: 'install the service for members who are Linux users',
  help: `muxwarden install-system [--with-provisioning] [--dry-run] | --hooks | --uninstall

As root: makes the account muxwarden and the group muxwarden-members, copies program and helper to
/opt/muxwarden, and lays down the rule for sudo, the settings (/etc/muxwarden/environment), the state
folder (/var/lib/muxwarden), the folders for reports of hooks (/var/lib/muxwarden-hooks), the units and
the command /usr/local/sbin/muxwarden. Says each step. What is as it should be is left alone; what is
not ours is never overwritten; when a step fails, everything is as it was before. Nothing is started.
docs/deployment.md goes on from there.

  --with-provisioning   also let the service make, suspend and delete members' Linux accounts
                        (docs/provisioning.md). A later run without it takes that away
  --dry-run             only say what would be done
  --hooks               only make the folders for hooks that members lack; muxwarden-hooks.service
                        does it whenever root has changed the groups
  --uninstall           stop the service and take away what was made. Members, their tmux servers
                        and the record in /var/lib/muxwarden stay`,
  async run(words, io) {
    const { values, positionals } = readWords(words, {
      'dry-run': { type: 'boolean', default: false },
      uninstall: { type: 'boolean', default: false },
      hooks: { type: 'boolean', default: false },
      'with-provisioning': { type: 'boolean', default: false },
    });
    exactly(positionals);
    const { uninstall: away, hooks, 'dry-run': dryRun, 'with-provisioning': provisioning } = values;
    if ((away || hooks) && [away, hooks, dryRun, provisioning].filter(Boolean).length > 1)
      throw new UsageError(`--${away ? 'uninstall' : 'hooks'} goes with no other option.`);
    if (away) return uninstall(io);
    await (hooks ? completeHookFolders(io) : install(io, { dryRun, provisioning }));
    return 0;
  },
};
