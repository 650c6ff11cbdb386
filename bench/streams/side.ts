import { readFile } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { mebibytes } from '../measure.ts';
import type { Counted } from './subscribers.ts';
import type { Subscribers } from './subscribing.ts';

/** What a server did in some seconds, and what came of it. */
export interface Load extends Counted {
  readonly cpuMs: number;
  readonly seconds: number;
}

const settleMs = 700;
const measureMs = 3_000;

/** Lets one side run alone: the other ones do nothing meanwhile. */
export async function loadOf(
  pid: number,
  subscribers: Subscribers,
  go: (whether: boolean) => void,
): Promise<Load> {
  go(true);
  await wait(settleMs);
  await subscribers.count();
  const [began, before] = [performance.now(), await cpuMs(pid)];
  await wait(measureMs);
  const counted = await subscribers.count();
  const cpu = (await cpuMs(pid)) - before;
  const seconds = (performance.now() - began) / 1_000;
  go(false);
  if (counted.silent > 0) throw new Error(`${counted.silent} subscribers got nothing`);
  return { ...counted, cpuMs: cpu, seconds };
}

export async function residentMiB(pid: number): Promise<number> {
  return mebibytes(await readFile(`/proc/${pid}/status`, 'utf8'));
}

async function cpuMs(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** A figure of less than everything would be none. */
export function mustBeWhole(loads: readonly Load[]): void {
  const { lost = 0, gaps = [] } = loads.at(-1) ?? {};
  if (lost > 0) throw new Error(`${lost} lines are missing: ${gaps.join(', ') || 'without a gap'}`);
}
