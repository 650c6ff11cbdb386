import { createClient } from 'graphql-ws';
import { WebSocket } from 'ws';
import type { Answer, Service } from './synthetic-service.ts';

/** The same operation over every transport; the headers say who asks. */

type Ask = (
  service: Pick<Service, 'url'>,
  headers: Readonly<Record<string, string>>,
  payload: { readonly query: string; readonly variables?: object },
) => Promise<Answer<unknown>>;

export const bearer = (login: string) => ({ authorization: `Bearer mw_${login}` });

/** As a browser sends it from a page of ours. */
export const cookie = ({ url }: Pick<Service, 'url'>, token: string) => ({
  cookie: `muxwarden=${token}`,
  origin: url,
  'x-muxwarden-csrf': '1',
});

const post = ({ url }: Pick<Service, 'url'>, headers: Record<string, string>, body: unknown) =>
  fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

export const transports: Readonly<Record<'HTTP' | 'SSE' | 'WebSocket', Ask>> = {
  HTTP: async (service, headers, payload) =>
    (await (await post(service, headers, payload)).json()) as Answer<unknown>,
  SSE: async (service, headers, payload) => {
    const response = await post(service, { ...headers, accept: 'text/event-stream' }, payload);
    const text = await response.text();
    return JSON.parse(/^data: ([^\n]+)/m.exec(text)?.[1] ?? text) as Answer<unknown>;
  },
  WebSocket: async (service, headers, { query, variables }) => {
    const client = socketClient(service, headers);
    try {
      const payload = { query, ...(variables && { variables: { ...variables } }) };
      for await (const result of client.iterate(payload)) return result as Answer<unknown>;
      return {};
    } catch (errors) {
      if (!Array.isArray(errors)) throw errors;
      return { errors };
    } finally {
      await client.dispose();
    }
  },
};

/** @param staysMs for so long it keeps a socket on which nothing is open any more */
export function socketClient(
  { url }: Pick<Service, 'url'>,
  headers: Readonly<Record<string, string>>,
  staysMs = 0,
) {
  class WithHeaders extends WebSocket {
    constructor(address: string, protocols: string | string[]) {
      super(address, protocols, { headers: { ...headers } });
    }
  }
  return createClient({
    url: `${url.replace('http', 'ws')}/graphql`,
    webSocketImpl: WithHeaders,
    retryAttempts: 0,
    lazy: true,
    lazyCloseTimeout: staysMs,
  });
}
