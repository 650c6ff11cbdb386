import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ExecutionResult } from 'graphql';
import { MadeOf } from '../made-of.ts';
import type { AuthorityWatch } from '../resolvers/authority-watch.ts';
import { Outlet } from './outlet.ts';
import { head } from './respond.ts';
import { resultBytes } from './result-bytes.ts';
import { sendAtOnce } from './send-at-once.ts';

/** Some browsers take no header until there is a body, and a proxy no silence. */
const ping = chunkOf(Buffer.from(':\n\n'));
const pingMs = 12_000;
/** For who reads nothing when its credential ends: far below the second in which all must be over. */
const lastWordsMs = 500;
const complete = Buffer.from('event: complete\ndata:\n\n');
/** Lines end here for many a reader, though not for the standard: text of a member must not begin a field. */
const lineEnds = ['\u0085', '\u2028', '\u2029'];

/** A piece of the body, as it stands in the body and as it goes over the wire. */
interface Chunk {
  readonly body: Buffer;
  readonly onWire: Buffer;
}

const known = new MadeOf<ExecutionResult, Chunk>();

/**
 * The results of a subscription as server-sent events, whose bytes are made once for all who are sent
 * the same. Reads on only when the connection took what was read, so a slow reader holds back its
 * source and nothing else.
 *
 * @param watch looks at the authority of the stream, for as long as its reader holds it back
 */
export async function eventStream(
  response: ServerResponse,
  results: AsyncIterator<ExecutionResult, void>,
  headers: OutgoingHttpHeaders,
  watch: () => AuthorityWatch,
): Promise<void> {
  // What a source says about being left concerns nobody.
  const leave = () => {
    void results.return?.().catch(() => undefined);
  };
  response.once('close', leave);
  if (response.destroyed) return leave();
  head(response, 200, { ...headers, 'x-accel-buffering': 'no' });
  response.flushHeaders();
  const wire = wireOf(response);
  using outlet = new Outlet(wire ?? response);
  const write = ({ body, onWire }: Chunk) => void outlet.write(wire === null ? body : onWire);
  const send = (result: ExecutionResult): boolean => {
    write(eventOf(result));
    return true;
  };
  write(ping);
  const pings = setInterval(() => {
    if (!outlet.isFull) write(ping);
  }, pingMs);
  try {
    for (;;) {
      if (outlet.isFull && !(await hasRoom(outlet, watch))) {
        response.destroy();
        break;
      }
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

/** Resolves when there is room; with false when the credential has ended and there still is none. */
async function hasRoom(outlet: Outlet, watch: () => AuthorityWatch): Promise<boolean> {
  using authority = watch();
  await outlet.untilDrained(authority.signal);
  const isWithdrawn = authority.end === 'withdrawn';
  await outlet.untilDrained(isWithdrawn ? AbortSignal.timeout(lastWordsMs) : undefined);
  return !outlet.isFull;
}

/**
 * Where chunks can go as they are. `node:http` would frame each anew, and write it only after the turn in
 * which all others are told, which would then take longer than anybody could measure in it. Null for a
 * client of HTTP/1.0, and where an earlier answer is still under way on the same connection.
 */
function wireOf(response: ServerResponse): Socket | null {
  return response.chunkedEncoding ? response.socket : null;
}

function eventOf(result: ExecutionResult): Chunk {
  let chunk = known.get(result);
  if (chunk === undefined) {
    const json = resultBytes(result);
    chunk = chunkOf(
      Buffer.from('event: next\ndata: '),
      lineEnds.some((end) => json.includes(end)) ? inOneLine(json) : json,
      Buffer.from('\n\n'),
    );
    known.set(result, chunk);
  }
  return chunk;
}

function chunkOf(...parts: readonly Buffer[]): Chunk {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const head = Buffer.from(`${length.toString(16)}\r\n`);
  const onWire = Buffer.concat([head, ...parts, Buffer.from('\r\n')]);
  return { body: onWire.subarray(head.length, head.length + length), onWire };
}

function inOneLine(json: Buffer): Buffer {
  return Buffer.from(
    json.toString().replace(/[\u0085\u2028\u2029]/g, (end) => {
      return `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`;
    }),
  );
}
