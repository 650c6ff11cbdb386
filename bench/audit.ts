import { Pool } from 'pg';
import type { Audit } from '../src/audit/audit.ts';
import { lastRow } from '../src/audit/audit-table.ts';
import { chainFiles, inspect } from '../src/audit/inspection.ts';
import { openAudit } from '../src/audit/open-audit.ts';
import type { SealedRow } from '../src/audit/row.ts';
import { migrate } from '../src/database/migrate.ts';
import { openDatabase } from '../src/database/open.ts';
import { openStateDirectory } from '../src/database/state-directory.ts';
import { entry } from '../tests/support/audit.ts';
import { type Benchmark, type Figure, inTurns, median, quantile } from './measure.ts';
import { temporaryFolder } from './service.ts';

/**
 * Rows on the verified chain, in journal and table, by 16 actors who each wait for their row; beside
 * plain inserts of the same rows into a table like it, each its own transaction, by 16 connections of
 * the same PostgreSQL. Then one after the other on both sides.
 */
const ms = 3_000;
const row = () =>
  entry({
    message: 'a message of a usual length, as an act has it',
    targetLabel: 'alice: /tmp/tmux-1000/default',
    before: { generation: 'g:1:2', pid: 7, version: '3.3a', status: 'RUNNING', sessionCount: 2 },
    after: { generation: 'g:3:4', pid: 8, version: '3.3a', status: 'RUNNING', sessionCount: 2 },
    survivors: [],
    facts: { pathHex: '2f746d70', expectedGeneration: 'g:1:2' },
  });

interface Rate {
  readonly rows: number;
  readonly p99: number;
}

export const audit: Benchmark = {
  name: 'audit',
  async run(rounds) {
    await using folder = await temporaryFolder();
    const stateDir = folder.path;
    await using stateDirectory = await openStateDirectory({ stateDir });
    await using database = await openDatabase(
      { databaseUrl: undefined, stateDir },
      { stateDirectory },
    );
    await migrate(database);
    const owner = await database.connectAsOwner();
    await owner.query('create table plain (like audit_events including all)');
    await owner.query('grant insert on plain to muxwarden');
    await owner.end();
    const pool = new Pool({
      ...database.pool.options,
      password: database.pool.options.password,
      max: 16,
    });
    const log = { info() {}, warn: console.error, error: console.error };
    const figures: Figure[] = [];
    {
      await using chain = await openAudit(stateDir, database, log);
      const { chain: name } = await chain.append(row());
      const written = await lastRow(database.drizzle, name);
      if (written === undefined) throw new Error('the row is not in the table');
      const plain = plainInsert(pool, written);
      for (const actors of [16, 1])
        figures.push(...(await compared(rounds, actors, () => append(chain), plain)));
    }
    await pool.end();
    for (const files of await chainFiles(stateDir))
      for (const { place, findings } of await inspect(files, database.drizzle))
        if (findings.length > 0) throw new Error(`${place}: ${JSON.stringify(findings[0])}`);
    return figures;
  },
};

async function append(chain: Audit): Promise<void> {
  await chain.append(row());
}

async function compared(
  rounds: number,
  actors: number,
  ours: () => Promise<void>,
  plain: () => Promise<void>,
): Promise<readonly Figure[]> {
  const late: Record<'ours' | 'plain', number[]> = { ours: [], plain: [] };
  const side = (name: 'ours' | 'plain', act: () => Promise<void>) => async () => {
    const { rows, p99 } = await rate(actors, act);
    late[name].push(p99);
    return rows;
  };
  const sides = { ours: side('ours', ours), plain: side('plain', plain) };
  await inTurns(1, sides);
  late.ours.length = 0;
  late.plain.length = 0;
  const rates = await inTurns(rounds, sides);
  const [a, b] = [median(rates.ours), median(rates.plain)];
  const [p, q] = [median(late.ours), median(late.plain)];
  const who = actors === 1 ? 'one after the other' : `${actors} actors`;
  return [
    {
      name: `audit rows, ${who}`,
      ratio: a / b,
      detail: `${a.toFixed(0)}/s on one chain, plain inserts ${b.toFixed(0)}/s`,
    },
    {
      name: `audit p99, ${who}`,
      ratio: q / p,
      detail: `${p.toFixed(1)} ms on one chain, plain inserts ${q.toFixed(1)} ms`,
    },
  ];
}

async function rate(actors: number, act: () => Promise<void>): Promise<Rate> {
  const took: number[] = [];
  const started = performance.now();
  const end = started + ms;
  await Promise.all(
    Array.from({ length: actors }, async () => {
      for (let at = performance.now(); at < end; ) {
        await act();
        const now = performance.now();
        took.push(now - at);
        at = now;
      }
    }),
  );
  return {
    rows: took.length / ((performance.now() - started) / 1_000),
    p99: quantile(took, 0.99),
  };
}

/** The same columns with the same values, but for the number and the id, which are unique. */
function plainInsert(pool: Pool, like: SealedRow): () => Promise<void> {
  let sequence = 0;
  const values: Record<string, unknown> = {
    ...like,
    previous: Buffer.from(like.previous, 'hex'),
    hash: Buffer.from(like.hash, 'hex'),
    ...Object.fromEntries(
      (['before', 'after', 'survivors', 'facts'] as const).map((name) => [
        name,
        JSON.stringify(like[name]),
      ]),
    ),
  };
  const names = Object.keys(values);
  const columns = names.map((name) => `"${name.replace(/[A-Z]/g, (x) => `_${x.toLowerCase()}`)}"`);
  const text = `insert into plain (${columns}) values (${names.map((_, index) => `$${index + 1}`)})`;
  return async () => {
    sequence += 1;
    const made = { ...values, sequence, id: crypto.randomUUID(), operationId: crypto.randomUUID() };
    await pool.query({ name: 'plain', text, values: Object.values(made) });
  };
}
