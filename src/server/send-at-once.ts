import type { ExecutionResult } from 'graphql';
import { atOnce, isPrompt } from '../concurrency/prompt.ts';
import type { Outlet } from './outlet.ts';

/**
 * Sends each result in the very moment in which it is there, without a promise for each, as long as
 * the connection takes them and nothing else is to be done. Then it is for `next` to go on; or for
 * the caller to do something with a result that `send` did not want.
 */
export async function sendAtOnce(
  results: AsyncIterator<ExecutionResult, void>,
  outlet: Outlet,
  send: (result: ExecutionResult) => boolean,
): Promise<ExecutionResult | undefined> {
  if (!isPrompt(results) || outlet.isFull) return undefined;
  const { take, wait } = results[atOnce];
  return await new Promise((resolve, reject) => {
    // One at a time: who has more waits for the others all the same.
    const ring = () => {
      try {
        if (outlet.isFull) return resolve(undefined);
        const result = take();
        if (result !== undefined && !send(result)) return resolve(result);
        if (!wait(ring)) resolve(undefined);
      } catch (error) {
        reject(error);
      }
    };
    if (!wait(ring)) resolve(undefined);
  });
}
