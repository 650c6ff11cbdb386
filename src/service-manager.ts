import { readFile, writeFile } from 'node:fs/promises';
import { execa } from 'execa';

/**
 * Having ourselves restarted, by whoever started us. The kernel says in which unit we are; only a unit
 * whose main process we are is ever restarted. No process of our own is started in our place: it would
 * hold the port against the unit.
 */
export interface ServiceUnit {
  readonly name: string;
  /** Of a user's own manager, not the system's. */
  readonly ofUser: boolean;
}

/** It can't be restarted so; nothing was asked for. The message says what to do. */
export class NotRestartableError extends Error {
  override readonly name = 'NotRestartableError';
}

export interface ServiceManager {
  /** Looks whether it can be done. @throws NotRestartableError */
  unit(): Promise<ServiceUnit>;
  /** Resolves once the restart is asked for. @throws NotRestartableError */
  restart(unit: ServiceUnit): Promise<void>;
}

export interface ServiceManagerOptions {
  /** See `Config.restartFile`. */
  readonly restartFile: string | undefined;
  readonly cgroupFile?: string;
  readonly environment?: NodeJS.ProcessEnv;
  /** Who counts as us: this process, and the one that started it where the machine's Node is old. */
  readonly pids?: readonly number[];
}

export function serviceManager({
  restartFile,
  cgroupFile = '/proc/self/cgroup',
  environment = process.env,
  pids = [process.pid, process.ppid],
}: ServiceManagerOptions): ServiceManager {
  const systemctl = async (ofUser: boolean, ...words: readonly string[]) => {
    const result = await execa('systemctl', [...(ofUser ? ['--user'] : []), ...words], {
      ...{ extendEnv: false, env: managerEnvironment(environment), cwd: '/' },
      ...{ stdin: 'ignore', reject: false, timeout: 10_000 },
    });
    // A unit's stop ends all that is in it, and what asked for it may be the first to hear.
    if (result.exitCode === 0 || result.signal === 'SIGTERM') return (result.stdout ?? '').trim();
    const said =
      result.stderr?.trim() || result.originalMessage || `exit status ${result.exitCode}`;
    throw new NotRestartableError(
      `systemctl ${words.join(' ')}: ${said.slice(0, 500)}. Restart the service as root: systemctl restart UNIT, or set it up by muxwarden install-system.`,
    );
  };
  const byFile = ({ ofUser }: ServiceUnit) => !ofUser && restartFile !== undefined;
  return {
    async unit() {
      const unit = unitOf(await readFile(cgroupFile, 'utf8'));
      if (unit === undefined)
        throw new NotRestartableError(
          'The service was not started by a service manager, so nobody would start it again. Stop it and start it as it was started.',
        );
      // What root restarts for that file does not depend on what we say.
      if (byFile(unit)) return unit;
      const main = await systemctl(unit.ofUser, 'show', '--property=MainPID', '--value', unit.name);
      if (pids.includes(Number(main))) return unit;
      throw new NotRestartableError(
        `The service runs within ${unit.name}, and is not its main process, so restarting that would restart something else. Stop it and start it as it was started.`,
      );
    },
    async restart(unit) {
      if (byFile(unit) && restartFile !== undefined)
        await writeFile(restartFile, '', { mode: 0o600 });
      else await systemctl(unit.ofUser, '--no-ask-password', 'restart', '--no-block', unit.name);
    },
  };
}

/**
 * The unit that a process is in, as its /proc/PID/cgroup says (version 1, 2 or both): the innermost
 * service. A scope (a login, a container) is nothing that could be started again.
 */
export function unitOf(cgroup: string): ServiceUnit | undefined {
  const lines = cgroup.split('\n').map((line) => /^\d+:([^:]*):(\/.*)$/.exec(line));
  const path =
    lines.find((line) => line?.[1] === 'name=systemd')?.[2] ??
    lines.find((line) => line?.[1] === '')?.[2];
  // On a machine with both, the second version's may be the one that is used.
  const other = lines.find((line) => line?.[1] === '')?.[2];
  return unitIn(path ?? '') ?? unitIn(other ?? '');
}

function unitIn(path: string): ServiceUnit | undefined {
  const parts = path.split('/');
  const at = parts.findLastIndex((part) => /\.(service|scope)$/.test(part));
  // A name that would be taken for something else has `_` put before it.
  const name = parts[at]?.replace(/^_/, '') ?? '';
  if (!/^[A-Za-z0-9][\w:.\\@-]*\.service$/.test(name) || isManager(name)) return undefined;
  return { name, ofUser: parts.slice(0, at).some(isManager) };
}

const isManager = (name: string) => /^user@\d+\.service$/.test(name);

function managerEnvironment(environment: NodeJS.ProcessEnv): Record<string, string> {
  const { PATH, XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS } = environment;
  return {
    PATH: PATH || '/usr/local/bin:/usr/bin:/bin',
    LC_ALL: 'C',
    XDG_RUNTIME_DIR: XDG_RUNTIME_DIR || `/run/user/${process.geteuid?.()}`,
    ...(DBUS_SESSION_BUS_ADDRESS ? { DBUS_SESSION_BUS_ADDRESS } : {}),
  };
}
