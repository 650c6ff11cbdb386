import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from '../tests/support/graphql-over-http.ts';
import { startChild } from './child.ts';
import { type Benchmark, inTurns, mebibytes, median } from './measure.ts';
import { startService, temporaryFolder } from './service.ts';

/** From the start of the process to the first answer, and the memory then; beside a bare Node server. */
export const start: Benchmark = {
  name: 'start',
  async run(rounds) {
    const firstStarts: number[] = [];
    const memory: { ours: number[]; limit: number[] } = { ours: [], limit: [] };
    const rss = async (pid: number) => mebibytes(await readFile(`/proc/${pid}/status`, 'utf8'));

    await using kept = await temporaryFolder();
    const ours = async (stateDir: string) => {
      const began = performance.now();
      await using service = await startService(stateDir);
      const answer = await connect(service.url, service.key).query('{ viewer { role } }');
      const ms = performance.now() - began;
      if (answer.data === null) throw new Error(JSON.stringify(answer.errors));
      memory.ours.push(await rss(service.pid));
      return ms;
    };
    const limit = async () => {
      const began = performance.now();
      await using bare = await startChild([join(import.meta.dirname, 'bare-server.ts')]);
      await (await fetch(bare.url, { method: 'POST', body: '{}' })).arrayBuffer();
      const ms = performance.now() - began;
      memory.limit.push(await rss(bare.pid));
      return ms;
    };

    await ours(kept.path);
    for (let round = 0; round < Math.min(rounds, 3); round += 1) {
      await using fresh = await temporaryFolder();
      firstStarts.push(await ours(fresh.path));
    }
    const again = await inTurns(rounds, { ours: () => ours(kept.path), limit });
    const [oursMs, limitMs] = [median(again.ours), median(again.limit)];
    const [oursRss, limitRss] = [median(memory.ours), median(memory.limit)];
    return [
      {
        name: 'start to first answer',
        ratio: limitMs / oursMs,
        detail: `${oursMs.toFixed(0)} ms, bare server ${limitMs.toFixed(0)} ms`,
      },
      {
        name: 'very first start to first answer',
        ratio: limitMs / median(firstStarts),
        detail: `${median(firstStarts).toFixed(0)} ms with initdb, bare server ${limitMs.toFixed(0)} ms`,
      },
      {
        name: 'memory at the first answer',
        ratio: limitRss / oursRss,
        detail: `RSS ${oursRss.toFixed(0)} MiB, bare server ${limitRss.toFixed(0)} MiB`,
      },
    ];
  },
};
