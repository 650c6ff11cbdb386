import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { ExecutionResult } from 'graphql';
import { MadeOf } from '../made-of.ts';
import { Outlet } from './outlet.ts';
import { head } from './respond.ts';
import { resultBytes } from './result-bytes.ts';
import { sendAtOnce } from './send-at-once.ts';

/** Some browsers take no header until there is a body, and a proxy no silence. */
const ping = Buffer.from(':\n\n');
const pingMs = 12_000;
const complete = Buffer.from('event: complete\ndata:\n\n');
/** Lines end here for many a reader, though not for the standard: text of a member must not begin a field. */
const lineEnds = ['\u0085', '\u2028', '\u2029'];

const known = new MadeOf<ExecutionResult, Buffer>();

/**
 * The results of a subscription as server-sent events, whose bytes are made once for all who are sent
 * the same. Reads on only when the connection took what was read, so a slow reader holds back its
 * source and nothing else.
 */
export async function eventStream(
  response: ServerResponse,
  results: AsyncIterator<ExecutionResult, void>,
  headers: OutgoingHttpHeaders,
): Promise<void> {
  // What a source says about being left concerns nobody.
  const leave = () => {
    void results.return?.().catch(() => undefined);
  };
  response.once('close', leave);
  if (response.destroyed) return leave();
  head(response, 200, { ...headers, 'x-accel-buffering': 'no' });
  const outlet = new Outlet(response);
  const send = (result: ExecutionResult): boolean => {
    outlet.write(eventBytes(result));
    return true;
  };
  outlet.write(ping);
  const pings = setInterval(() => {
    if (!outlet.isFull) outlet.write(ping);
  }, pingMs);
  try {
    for (;;) {
      if (outlet.isFull) await outlet.untilDrained();
      const step = await results.next();
      if (step.done === true || response.destroyed) break;
      send(step.value);
      await sendAtOnce(results, outlet, send);
    }
  } finally {
    clearInterval(pings);
    response.off('close', leave);
  }
  if (response.destroyed) leave();
  response.end(complete);
}

function eventBytes(result: ExecutionResult): Buffer {
  let bytes = known.get(result);
  if (bytes === undefined) {
    const json = resultBytes(result);
    bytes = Buffer.concat([
      Buffer.from('event: next\ndata: '),
      lineEnds.some((end) => json.includes(end)) ? inOneLine(json) : json,
      Buffer.from('\n\n'),
    ]);
    known.set(result, bytes);
  }
  return bytes;
}

function inOneLine(json: Buffer): Buffer {
  return Buffer.from(
    json.toString().replace(/[\u0085\u2028\u2029]/g, (end) => {
      return `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`;
    }),
  );
}
