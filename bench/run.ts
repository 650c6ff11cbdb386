import { readFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { audit } from './audit.ts';
import { doorbell } from './doorbell.ts';
import { largeListing } from './large-listing.ts';
import { limits } from './limits.ts';
import type { Benchmark } from './measure.ts';
import { membersPage } from './members-page.ts';
import { paneOutput } from './pane-output.ts';
import { refresh } from './refresh.ts';
import { start } from './start.ts';
import { streams } from './streams/streams.ts';

/** `npm run bench -- [NAME…] [--rounds N] [--check]` */
const benchmarks: readonly Benchmark[] = [
  membersPage,
  paneOutput,
  ...streams,
  start,
  audit,
  limits,
  refresh,
  doorbell,
  largeListing,
];

const { values, positionals } = parseArgs({
  options: { check: { type: 'boolean' }, rounds: { type: 'string', default: '7' } },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => !benchmarks.some((each) => each.name === name));
if (unknown.length > 0 || !/^[1-9]\d{0,3}$/.test(values.rounds)) {
  const names = benchmarks.map(({ name }) => name).join(' ');
  console.error(`npm run bench -- [${names}] [--rounds N] [--check]`);
  process.exit(2);
}

const floors = z
  .record(z.string(), z.number())
  .parse(JSON.parse(await readFile(join(import.meta.dirname, 'floors.json'), 'utf8')));
const { model } = cpus()[0] ?? {};
console.log(
  `${new Date().toISOString().slice(0, 10)}, ${cpus().length} × ${model}, Node ${process.versions.node}, ${values.rounds} rounds`,
);
let below = 0;
for (const benchmark of benchmarks) {
  if (positionals.length > 0 && !positionals.includes(benchmark.name)) continue;
  for (const { name, ratio, wanted, detail } of await benchmark.run(Number(values.rounds))) {
    const floor = floors[name];
    const low = floor !== undefined && !(ratio >= floor);
    if (low) below += 1;
    const bound = [
      ...(floor === undefined ? [] : [`floor ${floor}${low ? ', BELOW' : ''}`]),
      ...(wanted === undefined ? [] : [`wanted ${wanted.toFixed(2)}`]),
    ].join(', ');
    console.log(`${ratio.toFixed(3).padStart(8)}  ${name}${bound && ` (${bound})`}: ${detail}`);
  }
}
if (values.check && below > 0) {
  console.error(`${below} below the floor`);
  process.exitCode = 1;
}
