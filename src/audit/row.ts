import { escapeText } from '../escape.ts';
import type { AuditEntry, RecordedServerState } from './record.ts';

/**
 * A row of the chain and its one text.
 *
 * The canonical text is JSON of exactly the fields below, in this order, without white space; the
 * keys of `facts` are sorted. It is what the MAC is taken of, so it must come out the same from the
 * journal and from the table: `storable` first makes every value one that PostgreSQL gives back as
 * it took it (no NUL, no lone surrogate, no -0, bounded length), and refuses what it can't mend.
 */
export interface ChainRow extends AuditEntry {
  readonly chain: string;
  readonly sequence: number;
  readonly id: string;
  readonly at: Date;
  readonly bootId: string;
  /** Of the system's monotonic clock: orders what a wall clock that jumps does not. */
  readonly monotonicMs: number;
  readonly keyId: string;
  /** Hash of the row before, 64 zeros for the first; lower-case hex. */
  readonly previous: string;
}

export interface SealedRow extends ChainRow {
  /** HMAC-SHA256 of the canonical text, lower-case hex. */
  readonly hash: string;
}

export function canonicalText(row: ChainRow): string {
  return JSON.stringify({
    chain: row.chain,
    sequence: row.sequence,
    id: row.id,
    at: momentText(row.at),
    bootId: row.bootId,
    monotonicMs: row.monotonicMs,
    phase: row.phase,
    outcome: row.outcome,
    action: row.action,
    actorId: row.actorId,
    actorKeyId: row.actorKeyId,
    actorAddress: row.actorAddress,
    actorAgent: row.actorAgent,
    memberId: row.memberId,
    targetId: row.targetId,
    targetLabel: row.targetLabel,
    code: row.code,
    statedReason: row.statedReason,
    message: row.message,
    operationId: row.operationId,
    requestId: row.requestId,
    intentId: row.intentId,
    before: canonicalState(row.before),
    after: canonicalState(row.after),
    survivors: row.survivors?.map(({ pid, command }) => ({ pid, command })) ?? null,
    facts: row.facts && sorted(row.facts),
    keyId: row.keyId,
    previous: row.previous,
  });
}

/** The line of the journal: the canonical text with the hash as one more field, at its end. */
export function journalLine(row: SealedRow): string {
  return lineOf(canonicalText(row), row.hash);
}

export const lineOf = (text: string, hash: string) => `${text.slice(0, -1)},"hash":"${hash}"}`;

const canonicalState = (state: RecordedServerState | null) =>
  state && {
    generation: state.generation,
    pid: state.pid,
    version: state.version,
    status: state.status,
    sessionCount: state.sessionCount,
  };

let lastMoment = { time: 0, text: new Date(0).toISOString() };

/** Rows of a group are mostly of the same millisecond. */
export function momentText(at: Date): string {
  const time = at.getTime();
  if (time !== lastMoment.time) lastMoment = { time, text: at.toISOString() };
  return lastMoment.text;
}

/** PostgreSQL gives them back in an order of its own. */
function sorted(facts: NonNullable<AuditEntry['facts']>): NonNullable<AuditEntry['facts']> {
  const isSorted = Object.keys(facts).every(
    (key, at, keys) => at === 0 || (keys[at - 1] ?? '') < key,
  );
  return isSorted ? facts : Object.fromEntries(Object.entries(facts).sort(byKey));
}

const byKey = ([a]: [string, unknown], [b]: [string, unknown]) => (a < b ? -1 : a > b ? 1 : 0);

/** Characters that a text of a row may have; the rest is cut and marked. */
const limits = {
  actorAddress: 100,
  actorAgent: 200,
  targetId: 4_096,
  targetLabel: 500,
  statedReason: 500,
  message: 2_000,
  requestId: 200,
} as const;
const maxSurvivors = 200;
const maxFacts = 40;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The entry as it can be stored: texts escaped to one line and bounded.
 * @throws TypeError where a value has the wrong shape, since the table would refuse the row for ever
 */
export function storable(entry: AuditEntry): AuditEntry {
  const text = (value: string | null, limit: number) =>
    value === null ? null : bounded(oneLine(value), limit);
  if ((entry.phase === 'INTENT') !== (entry.outcome === null))
    throw new TypeError('An intent has no outcome, and everything else has one.');
  return {
    phase: entry.phase,
    outcome: entry.outcome,
    action: entry.action,
    actorId: uuidOf('actorId', entry.actorId),
    actorKeyId: uuidOf('actorKeyId', entry.actorKeyId),
    actorAddress: text(entry.actorAddress, limits.actorAddress),
    actorAgent: text(entry.actorAgent, limits.actorAgent),
    memberId: uuidOf('memberId', entry.memberId),
    targetId: text(entry.targetId, limits.targetId),
    targetLabel: text(entry.targetLabel, limits.targetLabel),
    code: entry.code,
    statedReason: text(entry.statedReason, limits.statedReason),
    message: text(entry.message, limits.message),
    operationId: required('operationId', uuidOf('operationId', entry.operationId)),
    requestId: required('requestId', text(entry.requestId, limits.requestId)),
    intentId: uuidOf('intentId', entry.intentId),
    before: storableState(entry.before),
    after: storableState(entry.after),
    survivors:
      entry.survivors?.slice(0, maxSurvivors).map(({ pid, command }) => ({
        pid: whole('pid', pid),
        command: bounded(oneLine(command), 300),
      })) ?? null,
    facts: storableFacts(entry.facts),
  };
}

function storableState(state: RecordedServerState | null): RecordedServerState | null {
  if (state === null) return null;
  return {
    generation: state.generation === null ? null : bounded(oneLine(state.generation), 200),
    pid: state.pid === null ? null : whole('pid', state.pid),
    version: state.version === null ? null : bounded(oneLine(state.version), 100),
    status: bounded(oneLine(state.status), 40),
    sessionCount: state.sessionCount === null ? null : whole('sessionCount', state.sessionCount),
  };
}

function storableFacts(facts: AuditEntry['facts']): AuditEntry['facts'] {
  if (facts === null) return null;
  const entries = Object.entries(facts);
  if (entries.length > maxFacts) throw new TypeError(`A row holds ${maxFacts} facts at most.`);
  return Object.fromEntries(
    entries.map(([key, value]) => {
      if (!/^[A-Za-z]{1,40}$/.test(key)) throw new TypeError(`'${key}' is no name of a fact.`);
      if (typeof value === 'string') return [key, bounded(oneLine(value), 8_192)];
      return [key, typeof value === 'number' ? whole(key, value) : value];
    }),
  );
}

/** What may already be escaped keeps its backslashes; whatever is unsafe still is escaped here. */
const oneLine = (text: string) =>
  printableAscii.test(text) ? text : text.replace(/[^\\]+/g, escapeText);
const printableAscii = /^[\x20-\x7e]*$/;

/** Cut between characters, never inside one. */
function bounded(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const cut = text.slice(0, limit - 1);
  return `${/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}

function uuidOf(field: string, value: string | null): string | null {
  if (value === null || uuid.test(value)) return value;
  throw new TypeError(`${field} must be a UUID in lower case.`);
}

function whole(field: string, value: number): number {
  if (!Number.isSafeInteger(value)) throw new TypeError(`${field} must be a whole number.`);
  return value === 0 ? 0 : value;
}

function required<T>(field: string, value: T | null): T {
  if (value === null) throw new TypeError(`${field} is missing.`);
  return value;
}
