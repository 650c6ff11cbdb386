import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  index,
  jsonb,
  pgEnum,
  pgTable,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { bytea } from './bytea.ts';

/**
 * Every table, in its final shape. Secrets are stored as hashes only. `audit_events`,
 * `idempotency_keys` and `claim_clock` are touched by src/audit alone, and triggers of the migration
 * refuse UPDATE and DELETE on `audit_events` from everybody.
 */

export const role = pgEnum('role', ['ADMIN', 'ANALYST', 'DEVELOPER']);
export const scope = pgEnum('scope', ['READ', 'STREAM', 'ACT', 'RESTART', 'ADMIN']);
export const auditPhase = pgEnum('audit_phase', ['INTENT', 'OUTCOME']);
export const auditOutcome = pgEnum('audit_outcome', [
  'SUCCEEDED',
  'FAILED',
  'DENIED',
  'SKIPPED',
  'UNKNOWN',
]);
export const auditAction = pgEnum('audit_action', [
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
]);

const moment = (name: string) =>
  timestamp(name, { withTimezone: true, precision: 3, mode: 'date' });

export const members = pgTable(
  'members',
  {
    id: uuid().primaryKey(),
    login: text().notNull(),
    role: role().notNull(),
    osUser: text('os_user'),
    disabled: boolean().notNull().default(false),
    /** `argon2id$…`: parameters, salt and hash. Null: no password, so nothing that needs one. */
    passwordHash: text('password_hash'),
    createdAt: moment('created_at').notNull().defaultNow(),
    /** Kept for the audit log, seen by nobody else. */
    deletedAt: moment('deleted_at'),
  },
  (table) => [
    uniqueIndex('members_login').on(table.login).where(sql`deleted_at is null`),
    uniqueIndex('members_os_user')
      .on(table.osUser)
      .where(sql`deleted_at is null and os_user is not null`),
  ],
);

export const apiKeys = pgTable(
  'api_keys',
  {
    id: uuid().primaryKey(),
    /** The part of the key that names it: `mw_<publicId>_<secret>`. */
    publicId: text('public_id').notNull().unique(),
    secretHash: bytea('secret_hash').notNull(),
    memberId: uuid('member_id')
      .notNull()
      .references(() => members.id),
    name: text().notNull(),
    scopes: scope().array().notNull(),
    /** Null: every member that the owner may touch. */
    memberIds: uuid('member_ids').array(),
    /** RESTART counts only on a key that an ADMIN made. */
    madeByAdmin: boolean('made_by_admin').notNull(),
    createdAt: moment('created_at').notNull().defaultNow(),
    expiresAt: moment('expires_at'),
    /** When it was first seen to be over by `expiresAt`; over for good, also for a clock set back. */
    endedAt: moment('ended_at'),
    lastUsedAt: moment('last_used_at'),
    revokedAt: moment('revoked_at'),
  },
  (table) => [index('api_keys_member').on(table.memberId)],
);

export const sessions = pgTable('sessions', {
  id: uuid().primaryKey(),
  tokenHash: bytea('token_hash').notNull().unique(),
  memberId: uuid('member_id')
    .notNull()
    .references(() => members.id),
  via: text({ enum: ['SESSION', 'SIGN_IN_LINK'] }).notNull(),
  createdAt: moment('created_at').notNull().defaultNow(),
  lastSeenAt: moment('last_seen_at').notNull().defaultNow(),
  expiresAt: moment('expires_at').notNull(),
  endedAt: moment('ended_at'),
  /** Where it was begun from, as its network: a place that this member is known to come from. */
  place: text(),
});

export const grants = pgTable(
  'grants',
  {
    tokenHash: bytea('token_hash').primaryKey(),
    memberId: uuid('member_id')
      .notNull()
      .references(() => members.id),
    /** SHA-256 of the credential that asked and of the act that it is for. */
    binding: bytea().notNull(),
    expiresAt: moment('expires_at').notNull(),
    usedAt: moment('used_at'),
  },
  (table) => [index('grants_expiry').on(table.expiresAt)],
);

export const signInLinks = pgTable('sign_in_links', {
  tokenHash: bytea('token_hash').primaryKey(),
  memberId: uuid('member_id')
    .notNull()
    .references(() => members.id),
  expiresAt: moment('expires_at').notNull(),
  usedAt: moment('used_at'),
});

export const auditEvents = pgTable(
  'audit_events',
  {
    /** One chain for each state directory (instance), numbered without gaps from 1. */
    chain: text().notNull(),
    sequence: bigint({ mode: 'number' }).notNull(),
    id: uuid().notNull().unique(),
    at: moment('at').notNull(),
    bootId: text('boot_id').notNull(),
    monotonicMs: bigint('monotonic_ms', { mode: 'number' }).notNull(),
    phase: auditPhase().notNull(),
    outcome: auditOutcome(),
    action: auditAction().notNull(),
    actorId: uuid('actor_id'),
    actorKeyId: uuid('actor_key_id'),
    actorAddress: text('actor_address'),
    actorAgent: text('actor_agent'),
    memberId: uuid('member_id'),
    /** The opaque id of the API. */
    targetId: text('target_id'),
    targetLabel: text('target_label'),
    code: text(),
    statedReason: text('stated_reason'),
    message: text(),
    operationId: uuid('operation_id').notNull(),
    requestId: text('request_id').notNull(),
    intentId: uuid('intent_id'),
    before: jsonb(),
    after: jsonb(),
    survivors: jsonb(),
    /** Allow-listed facts that reconciliation needs: mutation, expected generation, options. */
    facts: jsonb(),
    keyId: text('key_id').notNull(),
    previous: bytea().notNull(),
    hash: bytea().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.chain, table.sequence] }),
    index('audit_events_operation').on(table.operationId),
    index('audit_events_intent').on(table.intentId).where(sql`intent_id is not null`),
    index('audit_events_member').on(table.memberId, table.at).where(sql`member_id is not null`),
    index('audit_events_actor').on(table.actorId, table.at).where(sql`actor_id is not null`),
    index('audit_events_at').on(table.at),
  ],
);

export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    actorId: uuid('actor_id').notNull(),
    mutation: text().notNull(),
    key: text().notNull(),
    /** SHA-256 of the canonical input, password left out. */
    inputHash: bytea('input_hash').notNull(),
    intentId: uuid('intent_id').notNull(),
    operationId: uuid('operation_id').notNull(),
    /** For whoever reads the table; nothing goes by it. */
    createdAt: moment('created_at').notNull().defaultNow(),
    /** What the claim clock had counted then. */
    countedMs: bigint('counted_ms', { mode: 'number' }).notNull().default(sql`claim_clock_ms()`),
    /** The first answer, once there is one. */
    answer: jsonb(),
  },
  (table) => [
    primaryKey({ columns: [table.actorId, table.mutation, table.key] }),
    index('idempotency_keys_counted').on(table.countedMs),
    index('idempotency_keys_intent').on(table.intentId),
  ],
);

/** One row: what src/audit/claim-clock.ts counts, and `claim_clock_ms()` gives. */
export const claimClock = pgTable(
  'claim_clock',
  {
    id: boolean().primaryKey().default(true),
    ms: bigint({ mode: 'number' }).notNull(),
  },
  (table) => [check('claim_clock_one_row', sql`${table.id}`)],
);
