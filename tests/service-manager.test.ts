import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { NotRestartableError, serviceManager, unitOf } from '../src/service-manager.ts';
import { scratchDirectory } from './support/scratch.ts';

/** The units themselves are real in tests/cli/install-system.test.ts. */

const system = { name: 'muxwarden.service', ofUser: false };
const ofUser = { name: 'muxwarden.service', ofUser: true };

describe('the unit that a process is in', () => {
  it.each([
    ['of version 2', '0::/system.slice/muxwarden.service\n', system],
    [
      'of version 1',
      '5:devices:/system.slice/muxwarden.service\n1:name=systemd:/system.slice/muxwarden.service\n',
      system,
    ],
    [
      'of both',
      '1:name=systemd:/system.slice/muxwarden.service\n0::/system.slice/muxwarden.service\n',
      system,
    ],
    [
      'of the second where the first has none',
      '9:name=systemd:/\n4:memory:/x\n0::/system.slice/muxwarden.service\n',
      system,
    ],
    [
      'of a user',
      '0::/user.slice/user-1000.slice/user@1000.service/app.slice/muxwarden.service\n',
      ofUser,
    ],
    [
      'of a user, of version 1',
      '1:name=systemd:/user.slice/user-1000.slice/user@1000.service/muxwarden.service\n',
      ofUser,
    ],
    ['in a slice of its own', '0::/muxwarden.slice/muxwarden-a.slice/muxwarden.service\n', system],
    ['from below it', '0::/system.slice/muxwarden.service/supervised/run-1\n', system],
    [
      'of a template',
      '0::/system.slice/system-muxwarden.slice/muxwarden@blue.service\n',
      { name: 'muxwarden@blue.service', ofUser: false },
    ],
    [
      'with a name that systemd escapes',
      '0::/system.slice/mux\\x2dwarden.service\n',
      { name: 'mux\\x2dwarden.service', ofUser: false },
    ],
    [
      'with a name that the kernel reserves',
      '0::/system.slice/_cgroup.x.service\n',
      { name: 'cgroup.x.service', ofUser: false },
    ],
  ])('is found %s', (_, cgroup, unit) => {
    expect(unitOf(cgroup)).toEqual(unit);
  });

  it.each([
    ['a machine without one', '0::/\n'],
    ['a login', '0::/user.slice/user-1000.slice/session-3.scope\n'],
    [
      "a program of a user's desktop",
      '0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-term.scope\n',
    ],
    ["a user's manager itself", '0::/user.slice/user-1000.slice/user@1000.service/init.scope\n'],
    ['a container', '0::/system.slice/docker-0123456789ab.scope\n'],
    ['a container of version 1', '12:pids:/docker/0123\n1:name=systemd:/docker/0123456789ab\n'],
    ['a pod', '0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-0123.scope\n'],
    ['a scope within a service', '0::/system.slice/outer.service/inner.scope\n'],
    ['an option of systemctl', '0::/system.slice/--force.service\n'],
    ['a name with a blank', '0::/system.slice/a b.service\n'],
    ['nothing that can be read', 'nonsense\n\n'],
  ])('is none in %s', (_, cgroup) => {
    expect(unitOf(cgroup)).toBeUndefined();
  });
});

describe('a restart', () => {
  const within = async (cgroup: string, restartFile?: string) => {
    const scratch = await scratchDirectory();
    const cgroupFile = join(scratch.path, 'cgroup');
    await writeFile(cgroupFile, cgroup);
    return {
      scratch,
      manager: serviceManager({ restartFile, cgroupFile, environment: { PATH: scratch.path } }),
    };
  };

  it('is refused, and says what to do, where nobody would start the service again', async () => {
    const { manager, scratch } = await within('0::/user.slice/user-0.slice/session-3.scope\n');
    await using _ = scratch;
    await expect(manager.unit()).rejects.toThrow(NotRestartableError);
    await expect(manager.unit()).rejects.toThrow(
      /not started by a service manager.*Stop it and start it/,
    );
  });

  it('is refused where the manager can not be asked', async () => {
    const { manager, scratch } = await within('0::/system.slice/muxwarden.service\n');
    await using _ = scratch;
    await expect(manager.unit()).rejects.toThrow(/systemctl show .*muxwarden install-system/);
  });
});
