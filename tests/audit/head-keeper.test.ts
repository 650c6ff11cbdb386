import { mkdir, mkdtemp, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseChainKeys } from '../../src/audit/chain-key.ts';
import { readHeads } from '../../src/audit/head.ts';
import { HeadKeeper } from '../../src/audit/head-keeper.ts';
import { systemClock } from '../../src/concurrency/clock.ts';
import { keptLog } from '../support/audit.ts';

const keys = parseChainKeys(`k1 ${'0'.repeat(64)}`);
let stateDir: string;
beforeAll(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'mw-heads-'));
  await mkdir(join(stateDir, 'audit'));
});
afterAll(() => rm(stateDir, { recursive: true }));

it('notes every hundredth row and the last one, and tells a failure once until it has passed', async () => {
  const log = keptLog();
  const failures = () => log.lines.filter((line) => line.includes('can not be noted')).length;
  let sequence = 7;
  const keeper = new HeadKeeper({
    ...{ stateDir, chain: 'c', keys, log, clock: systemClock, noted: sequence },
    head: () => ({ sequence, hash: `${sequence}` }),
  });
  const noted = async () => (await readHeads(stateDir, keys)).heads.map((head) => head.sequence);
  const growTo = async (to: number) => {
    sequence = to;
    keeper.grown();
    if (to % 100 === 7) await keeper.note();
  };

  await growTo(106);
  expect(await noted()).toEqual([]);
  await growTo(107);
  expect(await noted()).toEqual([107]);

  const inTheWay = join(stateDir, 'audit', 'head.json.next');
  for (const at of [207, 507]) {
    await mkdir(inTheWay);
    const before = failures();
    for (const to of [at, at + 100]) await growTo(to);
    expect([await noted(), failures() - before]).toEqual([[at - 100], 1]);
    await rmdir(inTheWay);
    await growTo(at + 200);
    expect(await noted()).toEqual([at + 200]);
  }

  sequence = 708;
  await keeper.close();
  expect(await noted()).toEqual([708]);
});
