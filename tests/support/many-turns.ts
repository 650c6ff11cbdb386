import { expect } from 'vitest';
import { Leftover, type Random, random, seed, withoutStacks } from './mutations.ts';

/**
 * Turns by their number alone, so that a seed gives each again however the many are scheduled.
 * @param turn sends, and gives how many inputs were seen to their end
 */
export async function inParallel(
  inputs: number,
  senders: number,
  turn: (next: Random, number: number) => Promise<number>,
): Promise<void> {
  using _ = withoutStacks();
  const leftover = new Leftover();
  let [seen, turns] = [0, 0];
  const sender = async () => {
    while (seen < inputs) {
      const number = turns;
      turns += 1;
      const more = await turn(random(seed + number), number);
      seen += more;
      leftover.after(seen);
    }
  };
  await Promise.all(Array.from({ length: senders }, sender));
  console.log(`${seen} inputs in ${turns} turns, seed ${seed}, ${leftover.mebibytes} MiB left`);
  expect(leftover.mebibytes).toBeLessThan(200);
}

export const count = <Key>(counts: Map<Key, number>, key: Key) =>
  counts.set(key, (counts.get(key) ?? 0) + 1);

export const inWords = (counts: ReadonlyMap<unknown, number>) =>
  [...counts]
    .map(([key, times]) => `${key} ${times}`)
    .sort()
    .join(', ');
