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

/** Root's own program for accounts, with a rule of its own (docs/provisioning.md); not laid down by us. */
export const provision = `${root}/libexec/muxwarden-provision`;

export const sudoersFile = '/etc/sudoers.d/muxwarden';
export const settingsFile = '/etc/muxwarden/environment';
export const commandFile = '/usr/local/sbin/muxwarden';

export const stateHome = '/var/lib/muxwarden';
export const stateDir = `${stateHome}/state`;
/** Writing it asks root's own unit to restart the service. */
export const restartFile = `${stateHome}/restart`;

export const unit = 'muxwarden.service';
export const restartPath = 'muxwarden-restart.path';
export const restartUnit = 'muxwarden-restart.service';
export const unitFile = (name: string) => `/etc/systemd/system/${name}`;
