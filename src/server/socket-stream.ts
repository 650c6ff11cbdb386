import type { ExecutionResult } from 'graphql';
import type { WebSocket } from 'ws';
import type { Outlet } from './outlet.ts';
import { resultBytes } from './result-bytes.ts';
import { sendAtOnce } from './send-at-once.ts';
import { TextFrames } from './text-frame.ts';

const end = Buffer.from('}');
const frames = new TextFrames();

/**
 * Sends the results of a subscription as `next` messages: the bytes of a result are made once for
 * all sockets, and go out in one write. Given back are those that hold errors, which are for the
 * protocol to mask and send, and the end.
 */
export function sentOn(
  socket: WebSocket,
  outlet: Outlet,
  id: string,
  results: AsyncGenerator<ExecutionResult, void, void>,
): AsyncGenerator<ExecutionResult, void, void> {
  const begin = Buffer.from(`{"id":${JSON.stringify(id)},"type":"next","payload":`);
  const { OPEN } = socket;
  let left = false;
  const send = (result: ExecutionResult): boolean => {
    if (result.errors !== undefined) return false;
    if (!left && socket.readyState === OPEN) frames.send(outlet, begin, resultBytes(result), end);
    return true;
  };
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      for (;;) {
        if (outlet.isFull) await outlet.untilDrained();
        const step = await results.next();
        if (step.done === true || !send(step.value)) return step;
        const unsent = await sendAtOnce(results, outlet, send);
        if (unsent !== undefined) return { done: false, value: unsent };
      }
    },
    async return() {
      left = true;
      return await results.return();
    },
    async throw(error) {
      await this.return();
      throw error;
    },
    async [Symbol.asyncDispose]() {
      await this.return();
    },
  };
}
