import type { Answer, Service } from './synthetic-service.ts';
import { bearer, socketClient } from './transports.ts';

export const transports = ['WebSocket', 'SSE'] as const;

/** A subscription of somebody, and what came of it so far. */
export interface Subscribed {
  readonly got: Answer<Record<string, unknown>>[];
  leave(): void;
}

export function subscribeOver(
  transport: (typeof transports)[number],
  service: Service,
  as: string,
  query: string,
  variables: object = {},
): Subscribed {
  const got: Subscribed['got'] = [];
  const what = { query, variables: { ...variables } };
  const subscribe = transport === 'SSE' ? overServerSentEvents : overWebSocket;
  return { got, leave: subscribe(service, as, what, (answer) => void got.push(answer)) };
}

type What = { readonly query: string; readonly variables: Record<string, unknown> };
type Take = (answer: Answer<Record<string, unknown>>) => void;

function overWebSocket(service: Service, as: string, what: What, take: Take): () => void {
  const client = socketClient(service, bearer(as));
  client.subscribe<Record<string, unknown>>(what, {
    next: (result) => take(result as Answer<Record<string, unknown>>),
    error: (errors) => take({ errors } as Answer<Record<string, unknown>>),
    complete: () => {},
  });
  return () => void client.dispose();
}

function overServerSentEvents(service: Service, as: string, what: What, take: Take): () => void {
  const leave = new AbortController();
  const read = async () => {
    const headers = { accept: 'text/event-stream' };
    const response = await service.post(what, { as, headers, signal: leave.signal });
    let text = '';
    for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += part;
      const events = text.split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) {
        const data = /^data: ([^\n]+)/m.exec(event)?.[1];
        if (data !== undefined) take(JSON.parse(data));
      }
    }
  };
  read().catch((error: unknown) => {
    if (!leave.signal.aborted) throw error;
  });
  return () => leave.abort();
}

/** How often the service executed an event. */
export async function executions(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^muxwarden_subscription_executions (\d+)$/m.exec(text)?.[1]);
}
