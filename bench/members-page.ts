import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startChild } from './child.ts';
import { requestsPerSecond } from './load.ts';
import { type Benchmark, type Figure, inTurns, mebibytes, median } from './measure.ts';

const query = `{
  members(first: 100) {
    nodes {
      id login role osUser disabled
      listing { state version observedAt reason }
      tmuxServers { id socketPath status generation version outdated attachedClients }
    }
    pageInfo { hasNextPage endCursor }
  }
}`;
const ms = 3_000;
const connections = 16;

/** The page of 100 members with 5 servers each, beside a bare Node server that returns the same bytes. */
export const membersPage: Benchmark = {
  name: 'members-page',
  async run(rounds) {
    const figures: Figure[] = [];
    for (const [changing, name] of [
      [0, 'members page, unchanged'],
      [1, 'members page, one listing changes with each request'],
      [100, 'members page, every listing changes with each request'],
    ] as const) {
      await using ours = await startChild([
        join(import.meta.dirname, 'synthetic-server.ts'),
        String(changing),
      ]);
      await using bare = await startChild([join(import.meta.dirname, 'bare-server.ts')]);
      const headers = { Authorization: 'Bearer mw_member-001', Accept: 'application/json' };
      const body = JSON.stringify({ query });
      const page = await wholePage(ours.url, headers, body);
      await fetch(bare.url, { method: 'PUT', body: page });
      const of = (url: string) => () =>
        requestsPerSecond({
          port: Number(new URL(url).port),
          path: '/graphql',
          body,
          headers,
          connections,
          ms,
        });
      // What is compiled late is compiled before it counts.
      await of(ours.url)();
      await of(bare.url)();
      const rates = await inTurns(rounds, of(ours.url), of(bare.url));
      const [rate, limit] = [median(rates.ours), median(rates.limit)];
      const rss = mebibytes(await readFile(`/proc/${ours.pid}/status`, 'utf8'));
      figures.push({
        name,
        ratio: rate / limit,
        detail: `${rate.toFixed(0)}/s, bare server ${limit.toFixed(0)}/s (${page.length} bytes, ${connections} connections, RSS ${rss.toFixed(0)} MiB)`,
      });
    }
    return figures;
  },
};

/** The answer, after seeing that it is what the figure is about. */
async function wholePage(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
): Promise<Buffer<ArrayBuffer>> {
  const response = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json' },
    body,
  });
  const page = Buffer.from(await response.arrayBuffer());
  const { data, errors } = JSON.parse(page.toString());
  const servers = data?.members.nodes.flatMap(
    (node: { tmuxServers: unknown[] }) => node.tmuxServers,
  );
  if (errors !== undefined || servers.length !== 500)
    throw new Error(page.toString().slice(0, 500));
  return page;
}
