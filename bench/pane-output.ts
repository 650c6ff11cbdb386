import { spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient } from 'graphql-ws';
import { WebSocket } from 'ws';
import { connect } from '../tests/support/graphql-over-http.ts';
import { eventually, startTmux, type TmuxServer } from '../tests/support/tmux-server.ts';
import { type Benchmark, inTurns, median, quantile } from './measure.ts';
import { type Service, startService, temporaryFolder } from './service.ts';

/** Reads one pane until told to stop; gives each piece of its output as it comes. */
interface Reader extends AsyncDisposable {
  onBytes: (bytes: Buffer) => void;
  /** Rejects when it stops to give every byte. */
  readonly whole: Promise<never>;
}

const fileBytes = 16 << 20;
/** In no line of the file, no prompt and no control line: its arrival is the end. */
const last = '~';

/** Bytes and delay of a pane through `paneOutput` over WebSocket, beside a bare control client's. */
export const paneOutput: Benchmark = {
  name: 'pane-output',
  async run(rounds) {
    await using folder = await temporaryFolder();
    const directory = join(folder.path, 'tmux');
    await mkdir(directory, { mode: 0o700 });
    const file = join(folder.path, 'file');
    const line = `${'0123456789abcdefghijklmnopqrstuvwxyz '.repeat(2)}\\ \u001b[31mé\u001b[0m\n`;
    const lines = Math.floor(fileBytes / Buffer.byteLength(line));
    await writeFile(file, `${line.repeat(lines)}${last.repeat(3)}\n`);

    await using tmux = await startTmux({ directory });
    await using service = await startService(folder.path, { MUXWARDEN_LINGER_MS: '0' });
    const paneId = await idOfPane(service);
    const flood = async (reader: Reader) => {
      await using reading = reader;
      const end = new Promise<void>((resolve) => {
        reading.onBytes = (bytes) => bytes.includes(last) && resolve();
      });
      const began = performance.now();
      await tmux.run('send-keys', '-t', '%0', `clear; cat ${file}`, 'Enter');
      await Promise.race([end, reading.whole]);
      return fileBytes / 1e6 / ((performance.now() - began) / 1000);
    };
    const noClients = () =>
      eventually(async () => (await tmux.run('list-clients')) === '', 'nobody is attached');
    const bytes = await inTurns(rounds, {
      ours: async () => {
        await noClients();
        return flood(await throughService(service, paneId));
      },
      limit: async () => {
        await noClients();
        return flood(await bareControlClient(tmux));
      },
    });
    const delay = await delays(tmux, service, paneId, rounds);
    const [oursRate, limitRate] = [median(bytes.ours), median(bytes.limit)];
    const at = (part: number) => [quantile(delay.ours, part), quantile(delay.limit, part)] as const;
    const [[ours50, limit50], [ours99, limit99]] = [at(0.5), at(0.99)];
    return [
      {
        name: 'pane bytes',
        ratio: oursRate / limitRate,
        detail: `${oursRate.toFixed(1)} MB/s, bare control client ${limitRate.toFixed(1)} MB/s (16 MiB of coloured lines)`,
      },
      {
        name: 'pane delay',
        ratio: limit50 / ours50,
        detail: `p50 ${ours50.toFixed(2)} ms, bare control client ${limit50.toFixed(2)} ms; p99 ${ours99.toFixed(2)} and ${limit99.toFixed(2)} ms (${delay.ours.length} lines)`,
      },
    ];
  },
};

/** The pane prints the time; both read it at once, so that each line is measured by both. */
async function delays(tmux: TmuxServer, service: Service, paneId: string, rounds: number) {
  const found = { ours: [] as number[], limit: [] as number[] };
  const collect = (into: number[]) => (bytes: Buffer) => {
    const now = performance.timeOrigin + performance.now();
    for (const [, nanoseconds] of bytes.toString('latin1').matchAll(/T(\d{19})/g)) {
      into.push(now - Number(nanoseconds) / 1e6);
    }
  };
  await using ours = await throughService(service, paneId);
  await using limit = await bareControlClient(tmux);
  ours.onBytes = collect(found.ours);
  limit.onBytes = collect(found.limit);
  const loop = `clear; i=0; while [ $i -lt ${rounds * 50} ]; do date +T%s%N; sleep 0.03; i=$((i+1)); done`;
  await tmux.run('send-keys', '-t', '%0', loop, 'Enter');
  await eventually(
    () => found.ours.length >= rounds * 50 && found.limit.length >= rounds * 50,
    'every line is seen',
    rounds * 10_000,
  );
  return found;
}

async function idOfPane(service: Service): Promise<string> {
  const client = connect(service.url, service.key);
  const id = await eventually(async () => {
    const { data } = await client.query<{ panes: { nodes: readonly { id: string }[] } }>(
      '{ panes { nodes { id } } }',
    );
    return data?.panes.nodes[0]?.id;
  }, 'the pane is listed');
  return id;
}

async function throughService(service: Service, paneId: string): Promise<Reader> {
  const client = createClient({
    url: `${service.url.replace('http', 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    connectionParams: { Authorization: `Bearer ${service.key}` },
    retryAttempts: 0,
  });
  let fail: (error: Error) => void = () => {};
  const whole = new Promise<never>((_, reject) => {
    fail = reject;
  });
  whole.catch(() => undefined);
  const reader: Reader = {
    onBytes: () => {},
    whole,
    async [Symbol.asyncDispose]() {
      await client.dispose();
    },
  };
  const begun = new Promise<void>((resolve) => {
    client.subscribe<{ paneOutput: { __typename: string; data?: string } }>(
      {
        query: `subscription ($paneId: ID!) { paneOutput(paneId: $paneId) {
          __typename ... on PaneSnapshot { data } ... on PaneChunk { data } } }`,
        variables: { paneId },
      },
      {
        next({ data, errors }) {
          const event = data?.paneOutput;
          if (event?.__typename === 'PaneSnapshot') resolve();
          else if (event?.__typename === 'PaneChunk') {
            reader.onBytes(Buffer.from(event.data ?? '', 'base64'));
          }
          // A gap would make the figure one of fewer bytes.
          else fail(new Error(JSON.stringify(errors ?? event)));
        },
        error: (cause) => fail(new Error('the stream failed', { cause })),
        complete: () => fail(new Error('the stream ended')),
      },
    );
  });
  await Promise.race([begun, whole]);
  return reader;
}

/** As little as a client can do: read, and look at the bytes where they are. */
async function bareControlClient(tmux: TmuxServer): Promise<Reader> {
  const client = spawn(
    tmux.binary,
    ['-u', '-S', tmux.socket, '-C', 'attach', '-t', 'main', '-f', 'ignore-size'],
    { stdio: ['pipe', 'pipe', 'inherit'], env: { PATH: process.env.PATH, TERM: 'xterm-256color' } },
  );
  const gone = new Promise<void>((resolve) => client.once('exit', () => resolve()));
  const reader: Reader = {
    onBytes: () => {},
    whole: new Promise(() => {}),
    async [Symbol.asyncDispose]() {
      client.stdin.end();
      await gone;
    },
  };
  await new Promise<void>((resolve) => client.stdout.once('data', () => resolve()));
  client.stdout.on('data', (bytes: Buffer) => reader.onBytes(bytes));
  return reader;
}
