import type { ExecutionResult } from 'graphql';
import { MadeOf } from '../made-of.ts';

const known = new MadeOf<ExecutionResult, Buffer>();

/** A result as JSON, made once for all who are sent it. Only for results without errors. */
export function resultBytes(result: ExecutionResult): Buffer {
  let bytes = known.get(result);
  if (bytes === undefined) {
    bytes = Buffer.from(JSON.stringify(result));
    known.set(result, bytes);
  }
  return bytes;
}
