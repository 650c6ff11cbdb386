import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Counting } from './counting.ts';

/**
 * A process of its own with many subscribers, which count what comes and look at nothing else, so
 * that they cost little beside what they measure. Told by messages what to do (bench/subscribing.ts).
 */
export interface Subscribing {
  readonly port: number;
  /** `raw`: a WebSocket that is sent messages without being asked. */
  readonly transport: 'ws' | 'sse' | 'raw';
  readonly key: string;
  readonly query: string;
  /** One for each subscriber. */
  readonly variables: readonly object[];
  /** So many of them read nothing once they have begun. */
  readonly stalled?: number;
}

export interface Counted {
  readonly events: number;
  readonly bytes: number;
  readonly lines: number;
  /** Lines that are missing between two that came. */
  readonly lost: number;
  /** The reasons of gaps. */
  readonly gaps: readonly string[];
  /** From the time that stands in an event to its arrival, milliseconds: the median, and the p99. */
  readonly p50: number;
  readonly p99: number;
  /** Subscribers that got nothing since. */
  readonly silent: number;
}

class Subscriber {
  readonly counting = new Counting();
  closed = false;
  readonly socket: Socket;
  #rest: Buffer = Buffer.alloc(0);

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1').setNoDelay(true);
    this.socket.on('close', () => {
      this.closed = true;
    });
    this.socket.on('error', () => {});
  }

  /** Sends the request, and gives the answer's head. */
  async greet(request: string): Promise<string> {
    await once(this.socket, 'connect');
    this.socket.write(request);
    let head = '';
    for (;;) {
      const [part] = (await once(this.socket, 'data')) as [Buffer];
      head += part.toString('latin1');
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) continue;
      this.#rest = Buffer.from(head.slice(end + 4), 'latin1');
      return head.slice(0, end);
    }
  }

  /** Text in one frame whose mask changes nothing. */
  say(message: object): void {
    const text = Buffer.from(JSON.stringify(message));
    const head = Buffer.from([0x81, 0x80 | 126, text.length >> 8, text.length & 255, 0, 0, 0, 0]);
    this.socket.write(Buffer.concat([head, text]));
  }

  countFrames(): void {
    this.#read((bytes) => {
      let at = 0;
      for (;;) {
        const short = (bytes[at + 1] ?? 0) & 127;
        const head = short < 126 ? 2 : short === 126 ? 4 : 10;
        if (bytes.length < at + head) break;
        const length =
          short < 126
            ? short
            : short === 126
              ? bytes.readUInt16BE(at + 2)
              : bytes.readUInt32BE(at + 6);
        if (bytes.length < at + head + length) break;
        if (bytes[at] === 0x89) this.socket.write(Buffer.from([0x8a, 0x80, 0, 0, 0, 0]));
        if (bytes[at] === 0x81)
          this.counting.take(bytes.subarray(at + head, at + head + length), late);
        at += head + length;
      }
      return at;
    });
  }

  countEvents(): void {
    this.#read((bytes) => {
      let at = 0;
      for (let end = bytes.indexOf('\n\n'); end >= 0; end = bytes.indexOf('\n\n', at)) {
        const event = bytes.subarray(at, end);
        if (event.includes('event: next')) this.counting.take(event, late);
        at = end + 2;
      }
      return at;
    });
  }

  /** `take` says how much of it was whole. */
  #read(take: (bytes: Buffer) => number): void {
    const hear = (part: Buffer) => {
      const bytes = this.#rest.length === 0 ? part : Buffer.concat([this.#rest, part]);
      this.#rest = bytes.subarray(take(bytes));
    };
    this.socket.on('data', hear);
    hear(Buffer.alloc(0));
  }
}

const subscribers: Subscriber[] = [];
const delays = new Float64Array(1 << 21);
let delayed = 0;
function late(ms: number): void {
  delays[delayed++ % delays.length] = ms;
}

async function begin({ port, transport, key, query, variables, stalled = 0 }: Subscribing) {
  const host = `Host: 127.0.0.1:${port}\r\nAuthorization: Bearer ${key}\r\n`;
  const one = async (each: object) => {
    const subscriber = new Subscriber(port);
    subscribers.push(subscriber);
    if (transport === 'sse') {
      const body = JSON.stringify({ query, variables: each });
      const head = await subscriber.greet(
        `POST /graphql HTTP/1.1\r\n${host}Accept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
      if (!head.startsWith('HTTP/1.1 200')) throw new Error(head);
      subscriber.countEvents();
    } else {
      const head = await subscriber.greet(
        `GET /graphql HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n`,
      );
      if (!head.startsWith('HTTP/1.1 101')) throw new Error(head);
      if (transport === 'ws') {
        subscriber.say({ type: 'connection_init', payload: {} });
        await once(subscriber.socket, 'data');
        const id = randomUUID();
        subscriber.say({ id, type: 'subscribe', payload: { query, variables: each } });
      }
      subscriber.countFrames();
    }
  };
  const waiting = [...variables];
  const next = async (): Promise<void> => {
    for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) await one(each);
  };
  await Promise.all(Array.from({ length: 20 }, next));
  if (transport !== 'raw') {
    while (!subscribers.every(({ counting }) => counting.events > 0)) {
      if (subscribers.some(({ closed }) => closed)) throw new Error('a subscriber was cut off');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  for (const { socket } of subscribers.slice(0, stalled)) socket.pause();
}

function count(): Counted {
  const counted = { events: 0, bytes: 0, lines: 0, lost: 0, silent: 0 };
  for (const { counting } of subscribers) {
    counted.events += counting.events;
    counted.bytes += counting.bytes;
    counted.lines += counting.lines;
    counted.lost += counting.lost;
    if (counting.events === 0) counted.silent += 1;
    counting.events = counting.bytes = counting.lines = 0;
  }
  const sorted = delays.subarray(0, Math.min(delayed, delays.length)).sort();
  delayed = 0;
  const at = (part: number) => sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
  const gaps = [...new Set(subscribers.flatMap(({ counting }) => [...counting.gaps]))];
  return { ...counted, gaps, p50: at(0.5), p99: at(0.99) };
}

process.on('message', async (message: Subscribing | 'count') => {
  if (message === 'count') process.send?.(count());
  else await begin(message).then(() => process.send?.('ready'));
});
process.on('disconnect', () => process.exit(0));
