import { createHash } from 'node:crypto';
import { WebSocket } from 'ws';

/**
 * A process of its own with subscribers of one pane, most of which take all that comes, and some nothing
 * after the first event. Taking costs as little as can be: what is between the quotes of `text` is hashed
 * as it stands, which is the same however it is cut into events, where all of it is ASCII.
 */
export interface HashingReaders {
  readonly url: string;
  readonly key: string;
  readonly pane: string;
  readonly readers: number;
  readonly stopped: number;
  /** What the hash begins with, and how much of it is hashed, as it stands in JSON. */
  readonly begins: string;
  readonly length: number;
  /** Once this has come, a reader is done. */
  readonly last: string;
}

export interface Read {
  readonly sha256: string;
  readonly done: boolean;
  readonly firstCursor: string | undefined;
  readonly lastCursor: string | undefined;
  /** Bytes of output before the first gap; of those alone who were stopped. */
  readonly had: number;
  readonly gaps: readonly {
    readonly cursor: string;
    readonly missedBytes: number | null;
    readonly gapReason: string;
    /** Of the snapshot behind it. */
    after?: string;
  }[];
}

const query = `subscription ($pane: ID!) { paneOutput(paneId: $pane) { __typename
  ... on PaneSnapshot { cursor } ... on PaneGap { cursor missedBytes gapReason } ... on PaneChunk { cursor text } } }`;
const textBegins = Buffer.from('"text":"');

class Reader {
  readonly socket: WebSocket;
  readonly #what: HashingReaders;
  readonly #stops: boolean;
  readonly #hash = createHash('sha256');
  readonly #gaps: Read['gaps'][number][] = [];
  #hashed: number | undefined;
  #firstCursor: string | undefined;
  #lastCursor: string | undefined;
  #had = 0;
  #done = false;

  constructor(what: HashingReaders, stops: boolean, begun: () => void) {
    this.#what = what;
    this.#stops = stops;
    this.socket = new WebSocket(
      `${what.url.replace('http', 'ws')}/graphql`,
      'graphql-transport-ws',
      { skipUTF8Validation: true },
    );
    const say = (message: object) => this.socket.send(JSON.stringify(message));
    const payload = { query, variables: { pane: what.pane } };
    this.socket.on('open', () =>
      say({ type: 'connection_init', payload: { Authorization: `Bearer ${what.key}` } }),
    );
    this.socket.on('message', (data: Buffer) => {
      if (data.includes('"connection_ack"')) return say({ id: '1', type: 'subscribe', payload });
      const text = data.indexOf(textBegins);
      if (text >= 0) return this.#chunk(data, text + textBegins.length);
      const event = JSON.parse(data.toString()).payload?.data?.paneOutput;
      if (event === undefined) throw new Error(data.toString());
      if (event.__typename === 'PaneGap') this.#gaps.push(event);
      const gap = this.#gaps.at(-1);
      if (event.__typename === 'PaneSnapshot' && gap !== undefined) gap.after ??= event.cursor;
      if (this.#firstCursor !== undefined) return;
      this.#firstCursor = event.cursor;
      if (stops) this.socket.pause();
      begun();
    });
  }

  get read(): Read {
    return {
      ...{ sha256: this.#hash.copy().digest('hex'), done: this.#done, had: this.#had },
      ...{ firstCursor: this.#firstCursor, lastCursor: this.#lastCursor, gaps: this.#gaps },
    };
  }

  #chunk(data: Buffer, from: number): void {
    const text = data.subarray(from, data.lastIndexOf('"}}}}'));
    this.#lastCursor = /"cursor":"([\w-]+)"/.exec(data.toString('latin1', 0, from))?.[1];
    if (this.#stops) {
      if (this.#gaps.length === 0) this.#had += JSON.parse(`"${text}"`).length;
      return;
    }
    // The end is in the last bytes of all, and may be cut: a tail that is short is enough to be found.
    if (text.length < 4_096 && text.includes(this.#what.last)) this.#done = true;
    const at = this.#hashed === undefined ? text.indexOf(this.#what.begins) : 0;
    if (at < 0) return;
    const part = text.subarray(at, at + this.#what.length - (this.#hashed ?? 0));
    this.#hash.update(part);
    this.#hashed = (this.#hashed ?? 0) + part.length;
  }
}

const readers: Reader[] = [];

process.on('message', (message: HashingReaders | 'look' | 'go on') => {
  if (message === 'look') return process.send?.(readers.map(({ read }) => read));
  if (message === 'go on') {
    for (const { socket } of readers) if (socket.isPaused) socket.resume();
    return process.send?.('gone on');
  }
  const all = message.readers + message.stopped;
  let begun = 0;
  for (let at = 0; at < all; at++)
    readers.push(
      new Reader(message, at >= message.readers, () => ++begun === all && process.send?.('begun')),
    );
});
process.on('disconnect', () => process.exit(0));
