/** A script's client: queries by POST, subscriptions by server-sent events over fetch. */
export interface Answer<Data> {
  readonly data: Data | null;
  readonly errors: readonly { message: string; extensions?: { code?: string } }[];
  readonly ms: number;
}

export interface Client {
  query<Data = Record<string, unknown>>(
    document: string,
    variables?: Readonly<Record<string, unknown>>,
  ): Promise<Answer<Data>>;
  /** The event source's data, one for each event; ends when the reader stops. */
  subscribe<Data = Record<string, unknown>>(
    document: string,
    variables?: Readonly<Record<string, unknown>>,
    signal?: AbortSignal,
  ): AsyncGenerator<Data, void>;
}

export function connect(url: string, key: string): Client {
  const post = (accept: string, body: unknown, signal: AbortSignal) =>
    fetch(new URL('/graphql', url), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        accept,
      },
      body: JSON.stringify(body),
      signal,
    });
  return {
    async query(query, variables = {}) {
      const started = performance.now();
      const response = await post(
        'application/json',
        { query, variables },
        AbortSignal.timeout(30_000),
      );
      const text = await response.text();
      const ms = performance.now() - started;
      // Everything that muxwarden answers here is JSON; a stranger's answer is shown as it is.
      if (!text.startsWith('{')) throw new Error(`${response.status}: ${text}`);
      return { data: null, errors: [], ...JSON.parse(text), ms };
    },
    async *subscribe(query, variables = {}, signal) {
      const stop = new AbortController();
      const both = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
      try {
        const response = await post('text/event-stream', { query, variables }, both);
        if (!response.ok || response.body === null) {
          throw new Error(`no event stream: ${response.status} ${await response.text()}`);
        }
        for await (const { event, data } of events(response.body)) {
          if (event === 'complete') return;
          if (event !== 'next') continue;
          const { data: value, errors } = JSON.parse(data);
          if (errors?.length) throw new Error(JSON.stringify(errors));
          yield value;
        }
      } finally {
        stop.abort();
      }
    },
  };
}

async function* events(body: ReadableStream<Uint8Array>) {
  let text = '';
  const decoder = new TextDecoder();
  for await (const bytes of body) {
    text += decoder.decode(bytes, { stream: true });
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n');
      text = text.slice(end + 2);
      const field = (name: string) =>
        lines
          .filter((line) => line.startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).replace(/^ /, ''))
          .join('\n');
      yield { event: field('event'), data: field('data') };
    }
  }
}
