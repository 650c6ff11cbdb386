import type { NotRestored } from '../acts.ts';

/** The lines of a plan for `start`, with the meaning of each for people. */
export interface RestorePlan {
  readonly payload: Uint8Array;
  /** What line n (from 1) restores: `subjects[n - 1]`. */
  readonly subjects: readonly string[];
  readonly notRestored: readonly NotRestored[];
}

export class PlanWriter {
  readonly #lines: string[] = [];
  readonly #subjects: string[] = [];
  readonly #notRestored: NotRestored[] = [];

  line(subject: string, ...fields: readonly (string | number)[]): void {
    this.#lines.push(`${fields.join('\t')}\n`);
    this.#subjects.push(subject);
  }

  lost(what: string, detail: string): void {
    this.#notRestored.push({ what, detail });
  }

  plan(): RestorePlan {
    return {
      payload: Buffer.from(this.#lines.join(''), 'latin1'),
      subjects: this.#subjects,
      notRestored: this.#notRestored,
    };
  }
}
