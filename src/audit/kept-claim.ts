import type { IdempotencyClaim } from './audit.ts';
import type { ChainKeys } from './chain-key.ts';
import type { AuditEntry } from './record.ts';
import type { SealedRow } from './row.ts';

/**
 * The claim on an idempotency key as facts of its intent, so that it is as durable as the intent:
 * where a process was killed between journal and table, the next one puts both into the table.
 *
 * The facts are sealed with the row and last as long as it. A hash of the input alone would let a
 * reader of the table guess short inputs for ever, so it is there XOR a pad of 32 bytes that only
 * the key of the row gives, another one for each operation. Readers of the record see none of this.
 */
type Facts = AuditEntry['facts'];

const names = ['claimActor', 'claimMutation', 'claimKey', 'claimInput'] as const;

/** @throws TypeError where the claim would not come back as it is */
export function withClaim(entry: AuditEntry, claim: IdempotencyClaim, keys: ChainKeys): AuditEntry {
  const { actorId, mutation, key, inputHash } = claim;
  if (![mutation, key].every((text) => /^[\x20-\x7e]{1,64}$/.test(text)))
    throw new TypeError(
      'A mutation and an idempotency key are 1 to 64 printable ASCII characters.',
    );
  const input = padded(inputHash, entry.operationId, keys.current, keys);
  if (input === undefined) throw new TypeError('The hash of an input has 32 bytes at most.');
  const kept = {
    claimActor: actorId,
    claimMutation: mutation,
    claimKey: key,
    claimInput: input.toString('hex'),
  } satisfies Record<(typeof names)[number], string>;
  return { ...entry, facts: { ...entry.facts, ...kept } };
}

/** The claim that came with a row; undefined for any other, and for an intent from before they were kept. */
export function claimOf(row: SealedRow, keys: ChainKeys): IdempotencyClaim | undefined {
  if (row.facts === null || row.intentId !== null) return undefined;
  const { claimActor: actorId, claimMutation: mutation, claimKey: key, claimInput } = row.facts;
  if (typeof actorId !== 'string' || typeof mutation !== 'string') return undefined;
  if (typeof key !== 'string' || typeof claimInput !== 'string') return undefined;
  const inputHash = padded(Buffer.from(claimInput, 'hex'), row.operationId, row.keyId, keys);
  return inputHash && { actorId, mutation, key, inputHash };
}

/** The facts of the act alone. */
export function withoutClaim(facts: Facts): Facts {
  if (facts === null || !names.some((name) => name in facts)) return facts;
  const { claimActor: _1, claimMutation: _2, claimKey: _3, claimInput: _4, ...rest } = facts;
  return Object.keys(rest).length === 0 ? null : rest;
}

/** Applied twice it gives back what it was given. */
function padded(
  bytes: Buffer,
  operationId: string,
  keyId: string,
  keys: ChainKeys,
): Buffer | undefined {
  const mac = keys.mac(keyId, `claim ${operationId}`);
  if (mac === undefined || bytes.length > 32) return undefined;
  const pad = Buffer.from(mac, 'hex');
  return Buffer.from(bytes.map((byte, index) => byte ^ (pad[index] ?? 0)));
}
