import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { connect } from '../../tests/support/graphql-over-http.ts';
import {
  eventually,
  startTmux,
  type TmuxServer,
  type Version,
} from '../../tests/support/tmux-server.ts';
import { type Service, startService, temporaryFolder } from '../service.ts';
import { type Subscribers, subscribe } from './subscribing.ts';

/** The service, and panes that print a line with the time and a number in it again and again. */
export interface StreamLab extends AsyncDisposable {
  readonly service: Service;
  readonly tmux: TmuxServer;
  /** So many subscribers of each pane, of which some read nothing once they have begun. */
  watch(transport: 'ws' | 'sse', ofEach: number, stalled?: number): Promise<Subscribers>;
  /** Subscribers of something else. */
  subscribe(query: string, count: number): Promise<Subscribers>;
  /** Stops what prints, or lets it go on. */
  print(whether: boolean): void;
  /** How late the event loop of the service was since it was asked last: the p99, milliseconds. */
  lateness(): Promise<number>;
  executions(): Promise<number>;
}

export interface Printing {
  readonly version: Version;
  readonly panes: number;
  /** Of a line, its LF included. */
  readonly bytes: number;
  readonly everyMs: number;
}

const output = `subscription ($paneId: ID!) { paneOutput(paneId: $paneId) {
  __typename ... on PaneGap { gapReason } ... on PaneChunk { cursor text } } }`;

export async function startStreams({
  version,
  panes,
  bytes,
  everyMs,
}: Printing): Promise<StreamLab> {
  const stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const directory = join(folder.path, 'tmux');
  await mkdir(directory, { mode: 0o700 });
  const every = everyMs / 1_000;
  // tmux continues whatever stops in a pane, so it is told by signals of its own. Who rested goes on from now.
  const program = `$| = 1; use Time::HiRes qw(time sleep); my $rests = 0; my $at = time + rand ${every}; my $n = 0;
    $SIG{USR1} = sub { $rests = 1 }; $SIG{USR2} = sub { $rests = 0 }; while () {
    if ($rests) { sleep .1; $at = time; next } my $rest = $at - time; if ($rest > 0) { sleep $rest; next }
    $at = time if $rest < -.2; $at += ${every};
    my $head = sprintf "T%d#%d:", time * 1e6, $n++; print $head . "x" x (${bytes - 1} - length $head) . "\\n"; }`;
  const command = ['perl', '-e', program];
  const tmux = stack.use(await startTmux({ version, directory, command, columns: 250 }));
  for (let pane = 1; pane < panes; pane++)
    await tmux.run('new-window', '-d', '-t', 'main:', ...command);
  const printing = (await tmux.run('list-panes', '-a', '-F', '#{pane_pid}'))
    .split('\n')
    .map(Number);
  const late = join(folder.path, 'event-loop');
  const service = stack.use(
    await startService(folder.path, {
      MUXWARDEN_MAX_SUBSCRIPTIONS_PER_ACTOR: '100000',
      NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, 'event-loop.ts'))}`,
      BENCH_EVENT_LOOP: late,
    }),
  );
  const ids = await idsOfPanes(service, panes);
  const to = { port: portOf(service.url), key: service.key };
  return {
    service,
    tmux,
    watch(transport, ofEach, stalled = 0) {
      const variables = ids.flatMap((paneId) => Array.from({ length: ofEach }, () => ({ paneId })));
      return subscribe({ ...to, transport, query: output, variables, stalled });
    },
    subscribe(query, count) {
      const variables = Array.from({ length: count }, () => ({}));
      return subscribe({ ...to, transport: 'ws', query, variables });
    },
    print(whether) {
      for (const pid of printing) process.kill(pid, whether ? 'SIGUSR2' : 'SIGUSR1');
    },
    async lateness() {
      await rm(late, { force: true });
      process.kill(service.pid, 'SIGUSR2');
      const text = await eventually(
        () => readFile(late, 'utf8').catch(() => undefined),
        'the event loop says how late it was',
        30_000,
      );
      return Number(/^p99 (.+)$/m.exec(text)?.[1]);
    },
    async executions() {
      const text = await (await fetch(`${service.url}/metrics`)).text();
      return Number(/^muxwarden_subscription_executions (\d+)$/m.exec(text)?.[1]);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

export function portOf(url: string): number {
  return Number(new URL(url).port);
}

function idsOfPanes({ url, key }: Service, count: number): Promise<readonly string[]> {
  const client = connect(url, key);
  return eventually(async () => {
    const { data } = await client.query<{ panes: { nodes: readonly { id: string }[] } }>(
      '{ panes(first: 100) { nodes { id } } }',
    );
    const ids = data?.panes.nodes.map(({ id }) => id) ?? [];
    return ids.length === count ? ids : undefined;
  }, `${count} panes are listed`);
}
