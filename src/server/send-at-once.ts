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
    let isOver = false;
    const end = (unsent?: ExecutionResult) => {
      isOver = true;
      resolve(unsent);
    };
    const fail = (error: unknown) => {
      isOver = true;
      reject(error);
    };
    // One at a time: who has more waits for the others all the same.
    const ring = () => {
      if (isOver) return;
      try {
        if (outlet.isFull) return end();
        const result = take();
        if (result !== undefined && !send(result)) return end(result);
        if (!wait(ring, offer)) end();
      } catch (error) {
        fail(error);
      }
    };
    const offer = (result: ExecutionResult): boolean => {
      if (isOver || outlet.isFull) return false;
      try {
        if (!send(result)) end(result);
      } catch (error) {
        fail(error);
      }
      return true;
    };
    if (!wait(ring, offer)) end();
  });
}
