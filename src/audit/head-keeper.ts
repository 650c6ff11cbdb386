import type { Clock } from '../concurrency/clock.ts';
import type { Log } from '../database/database.ts';
import type { ChainKeys } from './chain-key.ts';
import { writeHead } from './head.ts';
import type { Head } from './sealing.ts';

const everyRows = 100;

/** Notes the head of a chain outside of journal and table when enough rows have come, and when it is asked to. */
export class HeadKeeper {
  readonly #stateDir: string;
  readonly #chain: string;
  readonly #keys: ChainKeys;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #head: () => Head;
  #noted: number;
  #writing: Promise<void> | undefined;
  #hasFailed = false;

  constructor(parts: {
    readonly stateDir: string;
    readonly chain: string;
    readonly keys: ChainKeys;
    readonly log: Log;
    readonly clock: Clock;
    /** The last row that is in the journal. */
    readonly head: () => Head;
    /** The number of the last row that needs no head of its own yet. */
    readonly noted: number;
  }) {
    this.#stateDir = parts.stateDir;
    this.#chain = parts.chain;
    this.#keys = parts.keys;
    this.#log = parts.log;
    this.#clock = parts.clock;
    this.#head = parts.head;
    this.#noted = parts.noted;
  }

  /** Called after rows were added. */
  grown(): void {
    if (this.#head().sequence - this.#noted >= everyRows) void this.note();
  }

  /** The head as it is now, or the one that is being written. A failure is told to the log, once. */
  async note(): Promise<void> {
    if (this.#writing !== undefined) return await this.#writing;
    const { sequence, hash } = this.#head();
    if (sequence === this.#noted) return;
    const before = this.#noted;
    this.#noted = sequence;
    const head = { chain: this.#chain, sequence, hash, at: new Date(this.#clock.now()) };
    this.#writing = writeHead(this.#stateDir, this.#keys, head)
      .then(() => {
        this.#hasFailed = false;
        this.#log.info(head, 'audit head');
      })
      .catch((error: unknown) => {
        this.#noted = before;
        if (!this.#hasFailed)
          this.#log.error({ err: error }, 'the head of the audit chain can not be noted');
        this.#hasFailed = true;
      })
      .finally(() => {
        this.#writing = undefined;
      });
    await this.#writing;
  }

  /** Notes the last one, once nothing is added any more. */
  async close(): Promise<void> {
    await this.#writing;
    await this.note();
  }
}
