/** What an audit row may hold: nothing else is ever stored. */

export const auditActions = [
  'RESTART_TMUX_SERVER',
  'RESTART_PANE',
  'REPAIR_TMUX_SERVER',
  'SIGN_IN',
  'SIGN_OUT',
  'REAUTHENTICATE',
  'CREATE_API_KEY',
  'REVOKE_API_KEY',
  'CREATE_MEMBER',
  'UPDATE_MEMBER',
  'DELETE_MEMBER',
  'PROVISION_MEMBER',
  'RESTART_SERVICE',
  'EXPORT_AUDIT_LOG',
] as const;
export type AuditAction = (typeof auditActions)[number];
export const auditPhases = ['INTENT', 'OUTCOME'] as const;
export type AuditPhase = (typeof auditPhases)[number];
export const auditOutcomes = ['SUCCEEDED', 'FAILED', 'DENIED', 'SKIPPED', 'UNKNOWN'] as const;
export type AuditOutcome = (typeof auditOutcomes)[number];

export const errorCodes = [
  'ESTALE',
  'ETMUXSTUCK',
  'ENOCWD',
  'EAUDIT',
  'EBUSY',
  'EINPROGRESS',
  'EREAUTH',
  'ELISTING',
  'EIDEMPOTENCY',
  'ENOTFOUND',
  'EUNSUPPORTED',
  'EUNKNOWN',
] as const;
export type ErrorCode = (typeof errorCodes)[number];

/** A tmux server as a row keeps it: plain JSON, no dates. */
export interface RecordedServerState {
  readonly generation: string | null;
  readonly pid: number | null;
  readonly version: string | null;
  readonly status: string;
  readonly sessionCount: number | null;
}

/** What is known before the row is numbered and chained. */
export interface AuditEntry {
  readonly phase: AuditPhase;
  /** Null exactly for an intent. */
  readonly outcome: AuditOutcome | null;
  readonly action: AuditAction;
  readonly actorId: string | null;
  readonly actorKeyId: string | null;
  readonly actorAddress: string | null;
  readonly actorAgent: string | null;
  readonly memberId: string | null;
  readonly targetId: string | null;
  readonly targetLabel: string | null;
  readonly code: ErrorCode | null;
  readonly statedReason: string | null;
  readonly message: string | null;
  readonly operationId: string;
  readonly requestId: string;
  readonly intentId: string | null;
  readonly before: RecordedServerState | null;
  readonly after: RecordedServerState | null;
  readonly survivors: readonly { readonly pid: number; readonly command: string }[] | null;
  /** Allow-listed facts that reconciliation needs. */
  readonly facts: Readonly<Record<string, string | number | boolean | null>> | null;
}

/** A row as stored. */
export interface AuditEvent extends AuditEntry {
  readonly id: string;
  readonly chain: string;
  readonly sequence: number;
  readonly at: Date;
  /** Lower-case hex. */
  readonly hash: string;
}
