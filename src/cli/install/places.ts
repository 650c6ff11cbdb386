/** Where an installation is, by name. docs/deployment.md says what each is for. */
export const account = 'muxwarden';
export const membersGroup = 'muxwarden-members';

export const root = '/opt/muxwarden';
export const program = `${root}/program`;
export const manifestFile = `${root}/installed.json`;

/** The program's own folder for each helper, and the names by which sudo knows it. */
export const helper = `${root}/libexec/muxwarden-member`;
/** The same file under a second name: sudo records each call of it. */
export const helperAct = `${helper}-act`;

/** Root's own program for accounts, only where it is asked for (docs/provisioning.md). */
export const provision = `${root}/libexec/muxwarden-provision`;
export const provisionRules = `${provision}.conf`;
export const provisionSudoersFile = '/etc/sudoers.d/muxwarden-provision';
/** Beside the settings, so that the service knows of it exactly while it is installed. */
export const provisionSettingsFile = '/etc/muxwarden/provisioning';

export const sudoersFile = '/etc/sudoers.d/muxwarden';
export const settingsFile = '/etc/muxwarden/environment';
export const commandFile = '/usr/local/sbin/muxwarden';

export const stateHome = '/var/lib/muxwarden';
export const stateDir = `${stateHome}/state`;
/** Writing it asks root's own unit to restart the service. */
export const restartFile = `${stateHome}/restart`;

/** Of the unit: what that program's root needs beyond what sudo does. */
export const provisionDropIn = 'muxwarden.service.d/provisioning.conf';

/** A folder for each member, in which the member's own tools report (docs/hooks.md). */
export const hooksHome = '/var/lib/muxwarden-hooks';

export const unit = 'muxwarden.service';
export const restartPath = 'muxwarden-restart.path';
export const restartUnit = 'muxwarden-restart.service';
export const hooksPath = 'muxwarden-hooks.path';
export const hooksUnit = 'muxwarden-hooks.service';
export const unitFile = (name: string) => `/etc/systemd/system/${name}`;
