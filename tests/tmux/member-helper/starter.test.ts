import { readFile } from 'node:fs/promises';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { helperPath, hex, ServingHelper } from '../../support/helper-client.ts';
import { stopProcess } from '../../support/stop-process.ts';
import { eventually, presentVersions, startTicks } from '../../support/tmux-server.ts';
import { Member, readSnapshot, type StartedServer } from './member.ts';

/** The small process that starts the clients of a `serve` in its place. */

describe('the process that starts clients', () => {
  let member: Member;
  const servers: StartedServer[] = [];
  beforeAll(async () => {
    member = await Member.any();
    for (const version of presentVersions) servers.push(await member.server(version));
  });
  afterAll(() => member[Symbol.asyncDispose]());

  const codes = async (helper: ServingHelper) => {
    const { answer, ...snapshot } = readSnapshot(
      await helper.ask(`snapshot dirs=${hex(member.directory)}`),
    );
    expect(answer.failure).toBeUndefined();
    return servers.map(({ socket }) => snapshot.servers.find(({ path }) => path === socket)?.code);
  };
  const all = (code: string) => servers.map(() => code);
  const settled = (helper: ServingHelper) =>
    eventually(async () => (await codes(helper)).every((code) => code === 'OK'), 'all answered');

  it('is the only child of the helper, a fraction of it, and holds nothing of whoever started it', async () => {
    await using helper = new ServingHelper(member.runner);
    await settled(helper);
    const starter = await onlyChild(helper);
    expect(await ownMemory(starter)).toBeLessThan((await ownMemory(pidOf(helper))) / 2);
    const status = await readFile(`/proc/${starter}/status`, 'utf8');
    expect(status).toMatch(/^Umask:\t0077$/m);
    expect(await childrenOf(starter)).toEqual([]);
  });

  it('starts them whatever descriptors the helper was started with', async () => {
    const { uid, gid } = member.runner;
    const args = ['-c', 'exec "$0" serve 3</dev/null 5</dev/null', helperPath];
    const request = `1 snapshot dirs=${hex(member.directory)}\n`;
    const answered = await eventually(async () => {
      const { stdout } = await execa('sh', args, { uid, gid, input: request });
      const codes = stdout.match(/^server\t\w+\t\w+/gm)?.map((row) => row.split('\t')[2]);
      return codes?.includes('TIMEOUT') ? undefined : codes;
    }, 'all answered in time');
    expect(answered).toEqual(all('OK'));
  });

  it('may be ended: the helper goes on without it', async () => {
    await using helper = new ServingHelper(member.runner);
    await settled(helper);
    const starter = await onlyChild(helper);
    process.kill(starter, 'SIGKILL');
    await eventually(async () => (await startTicks(starter)) === undefined, 'it is gone');
    await settled(helper);
    expect(await childrenOf(pidOf(helper))).toEqual([]);
  });

  it('ends with the helper, whatever it does just then', async () => {
    await using helper = new ServingHelper(member.runner);
    await settled(helper);
    const starter = await onlyChild(helper);
    await stopProcess(starter);
    process.kill(pidOf(helper), 'SIGKILL');
    await eventually(async () => (await startTicks(starter)) === undefined, 'it is gone');
  });

  it('may be stopped: the helper answers, ends it and goes on without it', async () => {
    await using helper = new ServingHelper(member.runner);
    await settled(helper);
    const starter = await onlyChild(helper);
    await stopProcess(starter);
    expect(await codes(helper)).toEqual(all('TIMEOUT'));
    expect(await startTicks(starter)).toBeUndefined();
    await settled(helper);
  });
});

function pidOf({ child }: ServingHelper): number {
  if (child.pid === undefined) throw new Error('the helper did not start');
  return child.pid;
}

async function childrenOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.split(' ').filter(Boolean).map(Number);
}

async function onlyChild(helper: ServingHelper): Promise<number> {
  const [child, ...others] = await childrenOf(pidOf(helper));
  expect(others).toEqual([]);
  if (child === undefined) throw new Error('the helper has no child');
  return child;
}

/** In KiB, without what is the same file to everybody. */
async function ownMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]);
}
