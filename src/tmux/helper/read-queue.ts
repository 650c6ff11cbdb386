import { type AskOptions, type HelperAnswer, HelperError } from '../member-helper.ts';

/**
 * The reads that wait for one member's helper.
 *
 * A `snapshot` is what the listing of everybody rests on: it overtakes all that waits and is never
 * refused, so nothing delays it by more than the one request that is under way. Other reads go in
 * the order of asking, and there is an end to how many wait. Equal ones that wait are sent once:
 * none was sent before the last of them was asked, so the answer is as new for each.
 */
export interface Read {
  readonly request: string;
  readonly options: Pick<AskOptions, 'deadlineMs' | 'pastBackOff'>;
  resolve(answer: HelperAnswer): void;
  reject(error: unknown): void;
}

interface Asked extends Read {
  readonly askers: Set<PromiseWithResolvers<HelperAnswer>>;
}

export const maxWaiting = 64;

export class ReadQueue {
  #snapshots: Asked[] = [];
  #others: Asked[] = [];

  /** @throws HelperError TIMEOUT, at once, when too many wait; the signal's reason */
  async push(request: string, options: AskOptions): Promise<HelperAnswer> {
    const { signal } = options;
    signal?.throwIfAborted();
    const read = this.#waitingLike(request, options) ?? this.#add(request, options);
    const asker = Promise.withResolvers<HelperAnswer>();
    read.askers.add(asker);
    // A request that is under way runs to its end: the next one needs the process in step.
    const abort = () => {
      asker.reject(signal?.reason);
      read.askers.delete(asker);
      if (read.askers.size === 0) this.#remove(read);
    };
    signal?.addEventListener('abort', abort, { once: true });
    try {
      return await asker.promise;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /** The one to send next. */
  shift(): Read | undefined {
    return this.#snapshots.shift() ?? this.#others.shift();
  }

  rejectAll(error: Error): void {
    for (let read = this.shift(); read !== undefined; read = this.shift()) read.reject(error);
  }

  #waitingLike(request: string, { deadlineMs, pastBackOff }: AskOptions): Asked | undefined {
    return this.#lane(request).find(
      (read) =>
        read.request === request &&
        read.options.deadlineMs === deadlineMs &&
        read.options.pastBackOff === pastBackOff,
    );
  }

  #add(request: string, { deadlineMs, pastBackOff }: AskOptions): Asked {
    const lane = this.#lane(request);
    if (lane === this.#others && lane.length >= maxWaiting) {
      const message = `${maxWaiting} reads wait for this member's helper already. Ask again later`;
      throw new HelperError('TIMEOUT', message);
    }
    const askers = new Set<PromiseWithResolvers<HelperAnswer>>();
    const read: Asked = {
      request,
      options: {
        ...(deadlineMs !== undefined && { deadlineMs }),
        ...(pastBackOff !== undefined && { pastBackOff }),
      },
      askers,
      resolve(answer) {
        for (const asker of askers) asker.resolve(answer);
      },
      reject(error) {
        for (const asker of askers) asker.reject(error);
      },
    };
    lane.push(read);
    return read;
  }

  #remove(read: Asked): void {
    this.#snapshots = this.#snapshots.filter((other) => other !== read);
    this.#others = this.#others.filter((other) => other !== read);
  }

  #lane(request: string): Asked[] {
    return /^snapshot( |$)/.test(request) ? this.#snapshots : this.#others;
  }
}
