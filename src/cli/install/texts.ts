import {
  account,
  helper,
  helperAct,
  membersGroup,
  program,
  restartFile,
  restartPath,
  restartUnit,
  settingsFile,
  stateDir,
  unit,
} from './places.ts';

/**
 * What the installed files say. docs/deployment.md prints rule and unit, and says why each line is
 * there; a test compares.
 */

export const sudoers = `\
Defaults:${account} !authenticate, log_denied, !log_allowed, !pam_session, !use_pty, !fqdn, !setenv, env_reset
Defaults:${account} closefrom=3, umask=0077, umask_override
Defaults!${helperAct} log_allowed, pam_session, umask=0022
${account} ALL=(%${membersGroup}) TIMEOUT=20 NOSETENV: ${helperAct} act, ${helperAct} start
${account} ALL=(%${membersGroup}) NOSETENV: ${helper} serve, ${helper} control
`;

export const service = `\
[Unit]
Description=muxwarden, the control plane for tmux
After=network.target postgresql.service
Wants=${restartPath}

[Service]
Type=exec
User=${account}
EnvironmentFile=${settingsFile}
ExecStart=${program}/node ${program}/bin/muxwarden.js serve
WorkingDirectory=/
StateDirectory=muxwarden
StateDirectoryMode=0700
UMask=0077
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_AUDIT_WRITE CAP_KILL CAP_SYS_RESOURCE
KillMode=process
TimeoutStopSec=20
Restart=on-failure
TasksMax=512
MemoryMax=1G
LimitNOFILE=8192:524288
LimitCORE=0:infinity

[Install]
WantedBy=multi-user.target
`;

/** The service may write one file, and root's own unit does the rest: no rule of sudo, no password. */
export const restartPathUnit = `\
[Unit]
Description=Whether muxwarden asks to be restarted
StopWhenUnneeded=yes

[Path]
PathModified=${restartFile}
Unit=${restartUnit}
`;

export const restartServiceUnit = `\
[Unit]
Description=Restart muxwarden, as it asked

[Service]
Type=oneshot
ExecStart=systemctl restart --no-block ${unit}
`;

export const settings = `\
# Settings of the service and of the command muxwarden: NAME=value, one a line.
# docs/configuration.md has all of them.
NODE_ENV=production
MUXWARDEN_MODE=system
MUXWARDEN_HELPER=${helper}
MUXWARDEN_STATE_DIR=${stateDir}
MUXWARDEN_RESTART_FILE=${restartFile}
`;

export const command = `\
#!/bin/sh
# muxwarden as its service runs: by the same account, with the same settings. For root.
if [ "$(id -u)" != 0 ]; then
  echo "muxwarden: this is for root, who becomes the account of the service: sudo muxwarden $*" >&2
  exit 1
fi
program="${program}/node ${program}/bin/muxwarden.js"
[ "\${1-}" != install-system ] || exec $program "$@"
set -a
. ${settingsFile}
set +a
cd /
exec runuser -u ${account} -- $program "$@"
`;
