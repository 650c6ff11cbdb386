import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startChild } from './child.ts';
import { requestsPerSecond } from './load.ts';
import { type Benchmark, type Figure, inTurns, mebibytes, median } from './measure.ts';

const query = `{
  members(first: 100) {
    nodes {
      id login role
      listing { state version observedAt reason }
      tmuxServers { id socketPath status version outdated }
    }
    pageInfo { hasNextPage endCursor }
  }
}`;
const ms = 3_000;
const connections = 16;

/**
 * The page of 100 members with 5 servers each, beside a bare Node server that returns the same answer
 * from a string; what one with ready bytes does stands beside it.
 */
export const membersPage: Benchmark = {
  name: 'members-page',
  async run(rounds) {
    const figures: Figure[] = [];
    for (const [changing, name] of [
      ['never', 'members page, unchanged'],
      ['interval', 'members page, each listing looked at again every 5 s'],
      ['one', 'members page, one listing changes with each request'],
      ['every', 'members page, every listing changes with each request'],
    ] as const) {
      await using ours = await startChild([
        join(import.meta.dirname, 'synthetic-server.ts'),
        changing,
      ]);
      await using bare = await startChild([join(import.meta.dirname, 'bare-server.ts')]);
      const headers = { Authorization: 'Bearer mw_member-001', Accept: 'application/json' };
      const body = JSON.stringify({ query });
      const page = await wholePage(ours.url, headers, body);
      await fetch(bare.url, { method: 'PUT', body: page });
      const of = (url: string, path: string) => () =>
        requestsPerSecond({
          port: Number(new URL(url).port),
          path,
          body,
          headers,
          connections,
          ms,
        });
      const sides = {
        ours: of(ours.url, '/graphql'),
        text: of(bare.url, '/text'),
        bytes: of(bare.url, '/bytes'),
      };
      // What is compiled late is compiled before it counts.
      await inTurns(1, sides);
      const rates = await inTurns(rounds, sides);
      const [rate, text, bytes] = [median(rates.ours), median(rates.text), median(rates.bytes)];
      const rss = mebibytes(await readFile(`/proc/${ours.pid}/status`, 'utf8'));
      figures.push({
        name,
        ratio: rate / text,
        detail: `${rate.toFixed(0)}/s, bare server ${text.toFixed(0)}/s, with ready bytes ${bytes.toFixed(0)}/s (${page.length} bytes, ${connections} connections, RSS ${rss.toFixed(0)} MiB)`,
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
