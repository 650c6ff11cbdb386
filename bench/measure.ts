/**
 * What a benchmark gives: a ratio to a limit that the same run measured. Both sides run in turns, so
 * that what else the machine does falls on both, and the median of the rounds counts.
 */
export interface Figure {
  readonly name: string;
  /** At least this by `--check`, when bench/floors.json names it. */
  readonly ratio: number;
  /** What is wanted of it, where that was said. */
  readonly wanted?: number;
  readonly detail: string;
}

export interface Benchmark {
  readonly name: string;
  run(rounds: number): Promise<readonly Figure[]>;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

/** One value a round for each side, taken in turns; the order turns round each time. */
export async function inTurns<Side extends string>(
  rounds: number,
  sides: Readonly<Record<Side, () => Promise<number>>>,
): Promise<Readonly<Record<Side, number[]>>> {
  const names = Object.keys(sides) as Side[];
  const found = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<
    Side,
    number[]
  >;
  for (let round = 0; round < rounds; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      found[name].push(await sides[name]());
    }
  }
  return found;
}

/** The resident memory of a process, MiB. */
export function mebibytes(status: string): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}
