import { access, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { lacks } from '../support/needs.ts';
import { startOwnMachine } from './own-machine.ts';

describe.skipIf(lacks('root', 'systemctl', 'unshare'))('a machine of its own', () => {
  it('has a service manager, accounts and folders of its own, and leaves nothing', async () => {
    const machine = await startOwnMachine();
    await machine.sh(
      'useradd --system mw-own && touch /opt/mw-own /tmp/mw-own && logger -t mw-own hello',
    );
    expect(
      await machine.sh('id -un mw-own && systemd-run --quiet --wait --pipe echo from a unit'),
    ).toBe('mw-own\nfrom a unit');
    expect(await machine.sh('journalctl --sync; journalctl -t mw-own -o cat')).toBe('hello');
    for (const path of ['/opt/mw-own', '/tmp/mw-own']) await expect(access(path)).rejects.toThrow();
    expect(await machine.sh('tr -d "\\n" </proc/1/comm')).toBe('systemd');
    await machine[Symbol.asyncDispose]();
    expect(await readdir(tmpdir())).not.toContain(expect.stringMatching(/^mw-machine-/));
    await expect(access(`/proc/${machine.init}`)).rejects.toThrow();
  });
});
