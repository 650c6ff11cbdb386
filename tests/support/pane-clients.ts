import { createClient } from 'graphql-ws';
import { WebSocket } from 'ws';
import { connect } from './graphql-over-http.ts';
import { eventually } from './tmux-server.ts';

/** An event of `paneOutput` or `paneScreen`, with whatever was selected of it. */
export interface PaneEvent {
  readonly __typename: string;
  readonly cursor?: string;
  readonly data?: string;
  readonly text?: string;
  readonly code?: string;
  readonly closeReason?: string;
  readonly gapReason?: string;
  readonly missedBytes?: string | null;
  readonly columns?: number;
  readonly rows?: number;
}

export const watchPane = `subscription($pane: ID!, $after: String) {
  paneOutput(paneId: $pane, after: $after) {
    __typename
    ... on PaneSnapshot { cursor data columns rows }
    ... on PaneChunk { cursor data }
    ... on PaneResized { cursor columns rows }
    ... on PaneGap { cursor missedBytes gapReason }
    ... on PaneClosed { cursor closeReason }
    ... on UserError { code }
  }
}`;

/** One subscription on a connection of its own; throws when the connection breaks. */
export type Subscribe = (
  url: string,
  query: string,
  variables: Record<string, unknown>,
) => AsyncGenerator<PaneEvent, void>;

export const transports: Readonly<Record<'SSE' | 'WebSocket', Subscribe>> = {
  async *SSE(url, query, variables) {
    const events = connect(url, 'mw_ann').subscribe<Record<string, PaneEvent>>(query, variables);
    for await (const data of events) for (const event of Object.values(data)) yield event;
  },
  async *WebSocket(url, query, variables) {
    const client = createClient({
      url: `${url.replace('http', 'ws')}/graphql`,
      webSocketImpl: WebSocket,
      connectionParams: { Authorization: 'Bearer mw_ann' },
      retryAttempts: 0,
    });
    try {
      const events = client.iterate<Record<string, PaneEvent>>({ query, variables });
      for await (const { data, errors } of events) {
        if (errors) throw new Error(JSON.stringify(errors));
        for (const event of Object.values(data ?? {})) yield event;
      }
    } finally {
      await client.dispose();
    }
  },
};

export async function paneIdOf(
  query: <Data>(as: string, query: string) => Promise<{ data?: Data }>,
  tmuxId = '%0',
): Promise<string> {
  return await eventually(async () => {
    const { data } = await query<{ panes: { nodes: { id: string; tmuxId: string }[] } }>(
      'ann',
      '{ panes(first: 100) { nodes { id tmuxId } } }',
    );
    return data?.panes.nodes.find((pane) => pane.tmuxId === tmuxId)?.id;
  }, `pane ${tmuxId} in the listing`);
}
