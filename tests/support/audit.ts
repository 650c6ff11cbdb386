import { randomUUID } from 'node:crypto';
import type { AuditEntry } from '../../src/audit/record.ts';
import type { Log } from '../../src/database/database.ts';

/** An entry as an act would make it; every field can be said otherwise. */
export function entry(change: Partial<AuditEntry> = {}): AuditEntry {
  return {
    phase: 'OUTCOME',
    outcome: 'SUCCEEDED',
    action: 'RESTART_TMUX_SERVER',
    actorId: null,
    actorKeyId: null,
    actorAddress: '127.0.0.1',
    actorAgent: 'a test',
    memberId: null,
    targetId: null,
    targetLabel: null,
    code: null,
    statedReason: null,
    message: null,
    operationId: randomUUID(),
    requestId: 'r1',
    intentId: null,
    before: null,
    after: null,
    survivors: null,
    facts: null,
    ...change,
  };
}

export const intent = (change: Partial<AuditEntry> = {}) =>
  entry({ phase: 'INTENT', outcome: null, ...change });

/** A log that keeps what was said, as text. */
export function keptLog(): Log & { readonly lines: string[] } {
  const lines: string[] = [];
  const keep = (...said: unknown[]) => {
    lines.push(
      said
        .map((part) =>
          JSON.stringify(part, (_, value: unknown) =>
            value instanceof Error ? `${value.name}: ${value.message}` : value,
          ),
        )
        .join(' '),
    );
  };
  return { lines, info: keep, warn: keep, error: keep };
}
