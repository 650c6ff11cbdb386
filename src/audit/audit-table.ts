import {
  and,
  asc,
  desc,
  eq,
  getColumns,
  gt,
  gte,
  inArray,
  isNull,
  lt,
  lte,
  or,
  type SQL,
  sql,
} from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { alias } from 'drizzle-orm/pg-core';
import type { Client } from 'pg';
import { auditEvents } from '../database/tables.ts';
import type { AuditFilter, AuditVisibility } from './audit.ts';
import { storedColumns } from './journal-line.ts';
import type { SealedRow } from './row.ts';

/**
 * The second place of a row: `audit_events`. Rows of one chain are inserted in the order of their
 * numbers, by one connection, so that what is visible of a chain is always a prefix without gaps:
 * a reader that has seen number n has missed nothing below n.
 */

type Stored = typeof auditEvents.$inferSelect;
type Queries = Pick<NodePgDatabase, 'select' | 'insert' | 'execute'>;

/** Rows that were there already stay as they are; gives the numbers of the new ones. */
export async function insertRows(
  queries: Queries,
  rows: readonly SealedRow[],
): Promise<readonly number[]> {
  const inserted = await queries.execute<{ sequence: string }>(
    sql`insert into audit_events ${records(rows)} on conflict do nothing returning sequence`,
  );
  return inserted.rows.map(({ sequence }) => Number(sequence));
}

/** As one parameter, whatever their number: the statement is the same, and PostgreSQL reads the rest. */
function records(rows: readonly SealedRow[]): SQL {
  const text = JSON.stringify(
    rows.map((row) => {
      const values = { ...row, previous: `\\x${row.previous}`, hash: `\\x${row.hash}` };
      return Object.fromEntries(
        columns.map(([field, { name }]) => [name, values[field as keyof SealedRow]]),
      );
    }),
  );
  return sql`select * from jsonb_populate_recordset(null::audit_events, ${text}::jsonb)`;
}

const columns = Object.entries(getColumns(auditEvents));

export async function lastRow(queries: Queries, chain: string): Promise<SealedRow | undefined> {
  const [row] = await queries
    .select()
    .from(auditEvents)
    .where(eq(auditEvents.chain, chain))
    .orderBy(desc(auditEvents.sequence))
    .limit(1);
  return row && sealedRow(row);
}

/** The highest number of the chain that the table has, `to` at most; 0 for none. */
export async function lastSequence(client: Client, chain: string, to: number): Promise<number> {
  const { rows } = await client.query<{ sequence: string }>(
    'select sequence from audit_events where chain = $1 and sequence <= $2 order by sequence desc limit 1',
    [chain, to],
  );
  return Number(rows[0]?.sequence ?? 0);
}

/** Of one chain, `after < sequence <= to`, in order. */
export async function rowsOfChain(
  queries: Queries,
  range: { readonly chain: string; readonly after: number; readonly to?: number },
  limit: number,
  visibleTo: AuditVisibility | null = null,
): Promise<readonly SealedRow[]> {
  const rows = await queries
    .select()
    .from(auditEvents)
    .where(
      and(
        eq(auditEvents.chain, range.chain),
        gt(auditEvents.sequence, range.after),
        range.to === undefined ? undefined : lte(auditEvents.sequence, range.to),
        visible(visibleTo),
      ),
    )
    .orderBy(asc(auditEvents.sequence))
    .limit(limit);
  return rows.map(sealedRow);
}

export async function rowById(queries: Queries, id: string): Promise<SealedRow | undefined> {
  const [row] = await queries.select().from(auditEvents).where(eq(auditEvents.id, id));
  return row && sealedRow(row);
}

export async function outcomeOf(queries: Queries, rowId: string): Promise<SealedRow | undefined> {
  const [row] = await queries
    .select()
    .from(auditEvents)
    .where(
      and(
        or(eq(auditEvents.intentId, rowId), eq(auditEvents.id, rowId)),
        eq(auditEvents.phase, 'OUTCOME'),
      ),
    )
    .orderBy(asc(auditEvents.sequence))
    .limit(1);
  return row && sealedRow(row);
}

export async function intentsWithoutOutcome(
  queries: Queries,
  chain: string,
): Promise<readonly SealedRow[]> {
  const outcome = alias(auditEvents, 'outcome');
  const rows = await queries
    .select(getColumns(auditEvents))
    .from(auditEvents)
    .leftJoin(outcome, eq(outcome.intentId, auditEvents.id))
    .where(and(eq(auditEvents.chain, chain), eq(auditEvents.phase, 'INTENT'), isNull(outcome.id)))
    .orderBy(asc(auditEvents.sequence));
  return rows.map(sealedRow);
}

export interface PagePosition {
  readonly at: Date;
  readonly chain: string;
  readonly sequence: number;
}

export async function newestRows(
  queries: Queries,
  filter: AuditFilter,
  limit: number,
  after?: PagePosition,
): Promise<readonly SealedRow[]> {
  const { at, chain, sequence } = auditEvents;
  const rows = await queries
    .select()
    .from(auditEvents)
    .where(
      and(
        visible(filter.visibleTo),
        filter.actorId === undefined ? undefined : eq(auditEvents.actorId, filter.actorId),
        filter.memberId === undefined ? undefined : eq(auditEvents.memberId, filter.memberId),
        filter.action && inArray(auditEvents.action, [...filter.action]),
        filter.phase && eq(auditEvents.phase, filter.phase),
        filter.outcome && inArray(auditEvents.outcome, [...filter.outcome]),
        filter.operationId === undefined
          ? undefined
          : eq(auditEvents.operationId, filter.operationId),
        filter.from && gte(at, filter.from),
        filter.to && lt(at, filter.to),
        after &&
          sql`(${at}, ${chain}, ${sequence}) < (${after.at.toISOString()}::timestamptz, ${after.chain}, ${after.sequence}::bigint)`,
      ),
    )
    .orderBy(desc(at), desc(chain), desc(sequence))
    .limit(limit);
  return rows.map(sealedRow);
}

/** The last number of every chain; jumps from chain to chain along the primary key. */
export async function readHeads(queries: Queries): Promise<ReadonlyMap<string, number>> {
  const found = await queries.execute<{ chain: string; sequence: string }>(sql`
    with recursive heads as (
      (select chain, sequence from audit_events order by chain desc, sequence desc limit 1)
      union all
      select next.chain, next.sequence from heads, lateral (
        select chain, sequence from audit_events where chain < heads.chain
        order by chain desc, sequence desc limit 1) as next
    ) select chain, sequence from heads`);
  return new Map(found.rows.map(({ chain, sequence }) => [chain, Number(sequence)]));
}

function visible(to: AuditVisibility | null): SQL | undefined {
  if (to === null) return undefined;
  const asActor = to.actorId === null ? undefined : eq(auditEvents.actorId, to.actorId);
  const asTarget =
    to.memberIds.length === 0 ? undefined : inArray(auditEvents.memberId, [...to.memberIds]);
  return or(asActor, asTarget) ?? sql`false`;
}

/**
 * What somebody else wrote into the JSON columns is not trusted to have the shape that we write, nor
 * is a moment to be one that a calendar has. It is not shown, and the fact that stands in its place
 * makes the row one whose hash is wrong.
 */
function sealedRow(stored: Stored): SealedRow {
  const { code, before, after, survivors, facts } = stored;
  const columns = storedColumns.safeParse({ code, before, after, survivors, facts });
  const isMoment = !Number.isNaN(stored.at.getTime());
  return {
    ...stored,
    ...(isMoment && columns.success ? columns.data : unreadable),
    at: isMoment ? stored.at : new Date(0),
    previous: stored.previous.toString('hex'),
    hash: stored.hash.toString('hex'),
  };
}

const unreadable = {
  code: null,
  before: null,
  after: null,
  survivors: null,
  facts: { unreadable: true },
};
