import type { Bell } from '../concurrency/bell.ts';
import type { AuditEntry, AuditEvent } from './record.ts';

/** The record could not be written in time; nothing was done. */
export class AuditUnavailableError extends Error {
  override readonly name = 'AuditUnavailableError';
}

/** The same idempotency key came with another input. */
export class IdempotencyConflictError extends Error {
  override readonly name = 'IdempotencyConflictError';
}

export interface IdempotencyClaim {
  readonly actorId: string;
  readonly mutation: string;
  readonly key: string;
  /** SHA-256 of the canonical input, password left out. */
  readonly inputHash: Buffer;
}

export interface AuditFilter {
  readonly actorId?: string | undefined;
  readonly memberId?: string | undefined;
  readonly action?: readonly AuditEvent['action'][] | undefined;
  readonly phase?: AuditEvent['phase'] | undefined;
  readonly outcome?: readonly NonNullable<AuditEvent['outcome']>[] | undefined;
  readonly operationId?: string | undefined;
  readonly from?: Date | undefined;
  readonly to?: Date | undefined;
  /** Rows that the viewer may see: where actor or target member is in here; null: all. */
  readonly visibleTo: { readonly actorId: string; readonly memberIds: readonly string[] } | null;
}

export interface Audit {
  /** One row in journal and table within 2 s. @throws AuditUnavailableError */
  append(entry: AuditEntry): Promise<AuditEvent>;
  event(id: string): Promise<AuditEvent | undefined>;
  /** Rings when rows were added, here or by another process. */
  readonly added: Bell;
}
