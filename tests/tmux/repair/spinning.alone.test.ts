import { readFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { prepareRepairServer } from '../../../src/tmux/repair/repair-server.ts';
import { actingMember, installedVersion } from '../../support/acting-member.ts';
import { leaveNoDescriptor } from '../../support/descriptors.ts';
import { longTier } from '../../support/tier.ts';
import { eventually, startTmux, type Version } from '../../support/tmux-server.ts';

async function cpuTicks(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

/** Of the processor time that a process could have had, what it took. */
async function share(pid: number): Promise<number> {
  const before = await cpuTicks(pid);
  await wait(1_000);
  return (await cpuTicks(pid)) - before;
}

// One class, so one of them is enough for the short tier.
const spinning: readonly Version[] = longTier ? ['3.3a', '3.5a'] : ['3.5a'];

describe.each(spinning)('a server of tmux %s without a descriptor', (version) => {
  it('is seen within two samples, and repaired with the same pid and sessions', async () => {
    await using server = await startTmux({ version });
    await server.run('new-session', '-d', '-s', 'second', 'exec sleep 1000');
    await using member = actingMember({
      directory: server.directory,
      installed: installedVersion(version),
    });
    const { generation } = await member.server(server.socket);
    const pid = await server.pid();
    // A look is one client too many, and from then on it spins; unless an earlier client, which was
    // counted as there to stay, has left and made room for it.
    await eventually(async () => {
      await leaveNoDescriptor(pid, { hard: 4096, spare: 2 });
      const { status, listing } = await member.server(server.socket);
      return status !== 'RUNNING' || listing.state !== 'FRESH';
    }, 'it has no room for a client');
    await wait(2_000);
    const view = await member.server(server.socket);
    expect(view.status).toMatch(/^(SPINNING|UNRESPONSIVE)$/);
    expect(view.reason).toBe('DESCRIPTORS_EXHAUSTED');
    const spun = await share(pid);
    const request = {
      server: view.ref,
      expectedGeneration: view.generation ?? '',
      repair: 'RAISE_DESCRIPTOR_LIMIT',
      operationId: 'operation',
    } as const;
    using act = await prepareRepairServer(member.tmux, request);
    const { after } = await act.run();
    expect(after).toMatchObject({ pid, status: 'RUNNING', sessionCount: 2, generation });
    expect(await server.run('list-sessions', '-F', '#{session_name}')).toBe('main\nsecond');
    expect(spun, 'it used the processor before').toBeGreaterThan(5);
    expect(await share(pid), 'and no longer does').toBeLessThan(spun / 2);
  });
});
