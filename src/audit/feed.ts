import { Bell } from '../concurrency/bell.ts';
import { type Clock, sleep, systemClock } from '../concurrency/clock.ts';
import type { AuditVisibility } from './audit.ts';
import { decodeFeedCursor, encodeFeedCursor, type FeedPosition } from './cursor.ts';
import type { SealedRow } from './row.ts';

/**
 * The feed: a follower is a position in every chain, and reads on from there. Nothing is queued for
 * it, so a slow one costs nothing and misses nothing.
 *
 * What makes it exact: of every chain a prefix without gaps is visible (audit-table.ts), so
 * "everything after n" is everything that is new. The bell only says when to look; it may be lost,
 * for all followers together look at the heads every few seconds anyway.
 */
export interface FeedTable {
  /** The last number of every chain. */
  heads(): Promise<FeedPosition>;
  /** `after < sequence <= to` of that chain that may be seen, in order. */
  rows(
    range: { readonly chain: string; readonly after: number; readonly to: number },
    limit: number,
    visibleTo: AuditVisibility | null,
  ): Promise<readonly SealedRow[]>;
}

export interface FeedItem {
  readonly cursor: string;
  readonly event: SealedRow;
}

const batch = 100;
/** Answers that are kept for whoever asks the same, until the heads are looked at again. */
const mostKept = 64;
/** Numbers that one query looks through, of which the follower may see none. */
const stride = 5_000;

export class Feed {
  readonly #table: FeedTable;
  readonly #bell: Bell;
  readonly #pollMs: number;
  readonly #clock: Clock;
  /** Rings when the heads moved. */
  readonly #moved = new Bell();
  #heads: FeedPosition = new Map();
  /** What followers who keep up ask alike: asked once, and the same rows for all who may see the same. */
  readonly #kept = new Map<string, Promise<readonly SealedRow[]>>();
  #followers = 0;
  #watching: Promise<void> | undefined;
  #stopped = false;

  constructor(table: FeedTable, bell: Bell, pollMs = 3_000, clock: Clock = systemClock) {
    this.#table = table;
    this.#bell = bell;
    this.#pollMs = pollMs;
    this.#clock = clock;
  }

  /** @throws RangeError */
  async follow(
    after: string | undefined,
    visibleTo: () => AuditVisibility | null | undefined,
    signal: AbortSignal,
    changed?: Bell,
  ): Promise<AsyncIterable<FeedItem>> {
    const given = after === undefined ? undefined : decodeFeedCursor(after);
    const heads = await this.#table.heads();
    for (const [chain, sequence] of given ?? []) {
      if (sequence > (heads.get(chain) ?? 0))
        throw new RangeError('is ahead of this audit log: it was given by another one.');
    }
    return this.#items(new Map(given ?? heads), visibleTo, signal, changed);
  }

  stop(): void {
    this.#stopped = true;
    this.#bell.ring();
    this.#moved.ring();
  }

  async *#items(
    position: Map<string, number>,
    visibleTo: () => AuditVisibility | null | undefined,
    signal: AbortSignal,
    changed: Bell | undefined,
  ): AsyncGenerator<FeedItem> {
    this.#followers++;
    this.#watching ??= this.#watch();
    try {
      while (!signal.aborted && !this.#stopped) {
        const visibility = visibleTo();
        if (visibility === undefined) return;
        const range = this.#next(position);
        if (range === undefined) {
          await eitherRings(this.#moved, changed, signal);
          continue;
        }
        const rows = await this.#rows(range, visibility, signal);
        for (const event of rows ?? []) {
          // The reader may have taken its time over the last one: look at its authority again.
          const now = visibleTo();
          if (signal.aborted || now === undefined) return;
          if (!sees(now, event)) continue;
          position.set(range.chain, event.sequence);
          yield { cursor: encodeFeedCursor(position), event };
        }
        if (rows && rows.length < batch) position.set(range.chain, range.to);
      }
    } finally {
      this.#followers--;
    }
  }

  #next(position: FeedPosition) {
    for (const [chain, head] of this.#heads) {
      const after = position.get(chain) ?? 0;
      if (head > after) return { chain, after, to: Math.min(head, after + stride) };
    }
    return undefined;
  }

  /** Undefined while the database is away; it is asked again after a while. */
  async #rows(
    range: Parameters<FeedTable['rows']>[0],
    visibility: AuditVisibility | null,
    signal: AbortSignal,
  ): Promise<readonly SealedRow[] | undefined> {
    try {
      return await this.#ask(range, visibility);
    } catch {
      await sleep(this.#pollMs, this.#clock, signal).catch(() => {});
      return undefined;
    }
  }

  #ask(
    range: Parameters<FeedTable['rows']>[0],
    visibility: AuditVisibility | null,
  ): Promise<readonly SealedRow[]> {
    const key = JSON.stringify([range, visibility]);
    const known = this.#kept.get(key);
    if (known !== undefined) return known;
    const rows = this.#table.rows(range, batch, visibility);
    if (this.#kept.size < mostKept) {
      this.#kept.set(key, rows);
      rows.catch(() => this.#kept.delete(key));
    }
    return rows;
  }

  /** Looks at the heads for all followers, as long as there is one. */
  async #watch(): Promise<void> {
    while (this.#followers > 0 && !this.#stopped) {
      // Waiting begins before looking, or a ring in between would be lost.
      const over = new AbortController();
      const cancel = this.#clock.after(this.#pollMs, () => over.abort());
      const rung = this.#bell.wait(over.signal);
      try {
        this.#heads = await this.#table.heads();
        this.#kept.clear();
        this.#moved.ring();
      } catch {
        // The database is away: nothing is known to be new, and the next look is due anyway.
      }
      await rung;
      cancel();
    }
    this.#kept.clear();
    this.#watching = undefined;
  }
}

async function eitherRings(one: Bell, other: Bell | undefined, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const end = () => over.abort();
  signal.addEventListener('abort', end, { once: true });
  await Promise.race([one.wait(over.signal), ...(other ? [other.wait(over.signal)] : [])]);
  signal.removeEventListener('abort', end);
  // Takes the wait that lost out of its bell.
  over.abort();
}

const sees = (to: AuditVisibility | null, event: SealedRow) =>
  to === null ||
  (to.actorId !== null && to.actorId === event.actorId) ||
  (event.memberId !== null && to.memberIds.includes(event.memberId));
