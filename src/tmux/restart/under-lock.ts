import type { Held } from '../../concurrency/keyed-mutex.ts';
import type { PreparedAct } from '../acts.ts';

/**
 * An act that has the lock which is given: back when the act is disposed, or at once where it is
 * refused before it began.
 */
export async function underLock<Result>(
  held: Held,
  prepare: () => Promise<Omit<PreparedAct<Result>, typeof Symbol.dispose>>,
): Promise<PreparedAct<Result>> {
  try {
    return { ...(await prepare()), [Symbol.dispose]: () => held[Symbol.dispose]() };
  } catch (error) {
    held[Symbol.dispose]();
    throw error;
  }
}
