import type { Audit, IdempotencyClaim, Json } from '../audit/audit.ts';
import type { AuditEntry, AuditEvent } from '../audit/record.ts';
import { messageOf } from './act-record.ts';

/**
 * The rows of one operation on many servers. The first one, of whichever server, claims the key; no
 * other is written, and so nothing is done, before that one is on record. At the end the key gets its
 * answer.
 */
export class OperationRows {
  readonly #audit: Audit;
  readonly #claim: IdempotencyClaim;
  #first: Promise<AuditEvent> | undefined;

  constructor(audit: Audit, claim: IdempotencyClaim) {
    this.#audit = audit;
    this.#claim = claim;
  }

  /** @throws AuditUnavailableError: the act must not be done; StillRunningError */
  intend(entry: AuditEntry): Promise<AuditEvent> {
    return this.#write((claim) => this.#audit.intend(entry, claim));
  }

  /** @throws AuditUnavailableError, StillRunningError */
  append(entry: AuditEntry): Promise<AuditEvent> {
    return this.#write((claim) => this.#audit.append(entry, claim));
  }

  /**
   * That a server was skipped. Undefined: that could not be written, and an alarm says so.
   * @throws what the first row met
   */
  async skip(entry: AuditEntry): Promise<AuditEvent | undefined> {
    try {
      return await this.append(entry);
    } catch (error) {
      await this.#first;
      this.#audit.alarm(
        {
          code: 'AUDIT_REFUSAL_MISSING',
          message: `That a server was skipped in operation ${entry.operationId} is not on record: ${messageOf(error)}`,
          remedy: 'Nothing was done to it. See why the audit log could not be written.',
        },
        'recorded',
      );
      return undefined;
    }
  }

  /** @throws what the first row met: then nothing was done */
  async keep(answer: Json): Promise<void> {
    const first = await this.#first;
    if (first === undefined) return;
    try {
      await this.#audit.answer(first.id, answer);
    } catch (error) {
      this.#audit.alarm({
        code: 'AUDIT_ANSWER_MISSING',
        message: `The answer of operation ${first.operationId} could not be kept for its key: ${messageOf(error)}`,
        remedy:
          'What was done is on record. A repeated call is told so once the service was started again.',
      });
    }
  }

  async #write(
    write: (claim: IdempotencyClaim | undefined) => Promise<AuditEvent>,
  ): Promise<AuditEvent> {
    if (this.#first === undefined) {
      this.#first = write(this.#claim);
      return await this.#first;
    }
    await this.#first;
    return await write(undefined);
  }
}
