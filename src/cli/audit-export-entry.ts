import { randomUUIDv7 } from 'node:crypto';
import type { AuditEntry } from '../audit/record.ts';

/** That the record was written out, by whom the kernel says runs the command. */
export function exportEntry(by: {
  readonly osUser: string;
  readonly actorId: string | null;
  readonly source: 'journal' | 'table';
}): AuditEntry {
  const operationId = randomUUIDv7();
  return {
    phase: 'OUTCOME',
    outcome: 'SUCCEEDED',
    action: 'EXPORT_AUDIT_LOG',
    actorId: by.actorId,
    actorKeyId: null,
    actorAddress: null,
    actorAgent: `muxwarden audit export, by ${by.osUser} (uid ${process.geteuid?.()})`,
    memberId: null,
    targetId: null,
    targetLabel: null,
    code: null,
    statedReason: null,
    message: `The ${by.source} was written out.`,
    operationId,
    requestId: operationId,
    intentId: null,
    before: null,
    after: null,
    survivors: null,
    facts: { source: by.source },
  };
}
