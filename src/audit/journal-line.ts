import { z } from 'zod';
import { auditActions, auditOutcomes, auditPhases, errorCodes } from './record.ts';
import type { SealedRow } from './row.ts';

const hex64 = z.string().regex(/^[0-9a-f]{64}$/);
const state = z.strictObject({
  generation: z.string().nullable(),
  pid: z.int().nullable(),
  version: z.string().nullable(),
  status: z.string(),
  sessionCount: z.int().nullable(),
});

/** What a row of the journal, or a JSON column of the table, may look like. */
const row = z.strictObject({
  chain: z.string(),
  sequence: z.int().min(1),
  id: z.uuid(),
  at: z.iso.datetime().transform((text) => new Date(text)),
  bootId: z.string(),
  monotonicMs: z.int(),
  phase: z.enum(auditPhases),
  outcome: z.enum(auditOutcomes).nullable(),
  action: z.enum(auditActions),
  actorId: z.uuid().nullable(),
  actorKeyId: z.uuid().nullable(),
  actorAddress: z.string().nullable(),
  actorAgent: z.string().nullable(),
  memberId: z.uuid().nullable(),
  targetId: z.string().nullable(),
  targetLabel: z.string().nullable(),
  code: z.enum(errorCodes).nullable(),
  statedReason: z.string().nullable(),
  message: z.string().nullable(),
  operationId: z.uuid(),
  requestId: z.string(),
  intentId: z.uuid().nullable(),
  before: state.nullable(),
  after: state.nullable(),
  survivors: z.array(z.strictObject({ pid: z.int(), command: z.string() })).nullable(),
  facts: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).nullable(),
  keyId: z.string(),
  previous: hex64,
  hash: hex64,
});

/** The row that the line says, or undefined where it is no row. Says nothing of its hash. */
export function parseJournalLine(line: string): SealedRow | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  return row.safeParse(value).data;
}

/** The JSON columns of a row of the table, where whoever wrote it may have put anything. */
export const storedColumns = row.pick({
  code: true,
  before: true,
  after: true,
  survivors: true,
  facts: true,
});
