import {
  account,
  helper,
  helperAct,
  hooksHome,
  hooksPath,
  hooksUnit,
  membersGroup,
  program,
  provision,
  provisionSettingsFile,
  restartFile,
  restartPath,
  restartUnit,
  settingsFile,
  stateDir,
  unit,
} from './places.ts';

/**
 * What the installed files say. docs/deployment.md and docs/provisioning.md print rules and unit, and
 * say why each line is there; a test compares.
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
Wants=${restartPath} ${hooksPath} ${hooksUnit}

[Service]
Type=exec
User=${account}
EnvironmentFile=-${provisionSettingsFile}
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
OOMPolicy=continue
TasksMax=infinity
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

/** Who is in the members' group is root's to say, and this makes of it what root would make by hand. */
export const hooksPathUnit = `\
[Unit]
Description=Whether somebody became a member of ${membersGroup}
StopWhenUnneeded=yes

[Path]
PathChanged=/etc/group
Unit=${hooksUnit}
`;

export const hooksServiceUnit = `\
[Unit]
Description=Folders in which members' tools report to muxwarden
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=${program}/node ${program}/bin/muxwarden.js install-system --hooks
CapabilityBoundingSet=CAP_CHOWN CAP_FOWNER CAP_FSETID
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=${hooksHome}
ProtectHome=yes
PrivateTmp=yes
PrivateNetwork=yes
`;

export const provisionSudoers = `\
Defaults!${provision} log_allowed, umask=0077
${account} ALL=(root) TIMEOUT=300 NOSETENV: ${provision} look, ${provision} create
${account} ALL=(root) TIMEOUT=300 NOSETENV: ${provision} suspend, ${provision} resume, ${provision} delete
`;

/** What root has to have in the unit to make an account, its home and its folder for hooks. */
export const provisionCapabilities = `\
[Service]
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID
`;

export const provisionRulesText = `\
# Rules of muxwarden-provision: name=value, one a line. docs/provisioning.md has all of them.
`;

export const provisionSettings = `\
# Of install-system --with-provisioning, and gone without it.
MUXWARDEN_PROVISION=${provision}
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
[ ! -e ${provisionSettingsFile} ] || . ${provisionSettingsFile}
. ${settingsFile}
set +a
cd /
exec runuser -u ${account} -- $program "$@"
`;
