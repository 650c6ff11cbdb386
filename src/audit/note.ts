import type { IdempotencyClaim, Json } from './audit.ts';
import type { AuditEntry } from './record.ts';
import type { SealedRow } from './row.ts';

/** A row to be, and what belongs into the same transaction. */
export interface Note {
  readonly entry: AuditEntry;
  /** An intent's, or that of the first row of an operation on many. */
  readonly claim?: IdempotencyClaim | undefined;
  /** For the key of `entry.intentId`; null takes the claim back. */
  readonly answer?: Json | null | undefined;
}

/** Numbered, sealed and in the journal. */
export interface Unsaved extends Note {
  readonly row: SealedRow;
}
