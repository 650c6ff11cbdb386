import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '../tests/support/graphql-over-http.ts';
import { eventually, startTmux, type TmuxServer } from '../tests/support/tmux-server.ts';
import { type Service, startService, temporaryFolder } from './service.ts';
import { type Subscribers, subscribe } from './subscribing.ts';

/** The service, and panes that print a line with the time in it again and again. */
export interface StreamLab extends AsyncDisposable {
  readonly service: Service;
  readonly tmux: TmuxServer;
  /** So many subscribers of each pane, of which some read nothing once they have begun. */
  watch(transport: 'ws' | 'sse', ofEach: number, stalled?: number): Promise<Subscribers>;
}

export interface Printing {
  readonly panes: number;
  /** Of a line, its LF included. */
  readonly bytes: number;
  readonly everyMs: number;
}

const output = `subscription ($paneId: ID!) { paneOutput(paneId: $paneId) {
  __typename ... on PaneChunk { cursor text } } }`;
export async function startStreams({ panes, bytes, everyMs }: Printing): Promise<StreamLab> {
  const stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder());
  const directory = join(folder.path, 'tmux');
  await mkdir(directory, { mode: 0o700 });
  const program = `$| = 1; use Time::HiRes qw(time sleep); my $at = time + rand ${everyMs / 1_000}; while () {
    my $rest = $at - time; sleep $rest if $rest > 0; $at += ${everyMs / 1_000};
    my $head = sprintf "T%d", time * 1e6; print $head . "x" x (${bytes - 1} - length $head) . "\\n"; }`;
  const command = ['perl', '-e', program];
  const tmux = stack.use(await startTmux({ directory, command, columns: 250 }));
  for (let pane = 1; pane < panes; pane++)
    await tmux.run('new-window', '-d', '-t', 'main:', ...command);
  const service = stack.use(
    await startService(folder.path, {
      MUXWARDEN_MAX_SUBSCRIPTIONS_PER_ACTOR: '100000',
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
