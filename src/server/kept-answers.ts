import { hash } from 'node:crypto';
import type { Viewer } from '../auth/viewer.ts';
import type { Fleet } from '../tmux/fleet.ts';
import type { Look, Reads } from './reads.ts';
import type { ReadyAnswer } from './respond.ts';

export interface KeptAnswer extends ReadyAnswer {
  readonly reads: Reads;
  /** When everything was last read for it, so that what is old was asked for again; monotonic. */
  readAt?: number;
}

/** What a viewer asked the last time. */
interface Asked {
  readonly accept: string;
  readonly body: Buffer;
  readonly key: string;
}

/** Bytes of a request that are remembered for each viewer. */
const mostRemembered = 4_096;

/** So long after reading, what is known is enough: reading again could ask for nothing else. */
const readEveryMs = 100;

/**
 * Answers that may be given again, by what was asked and by whom. All that a viewer's answer may depend
 * on is in the key, so no viewer ever gets another's; who it is, was asked anew for each request.
 * `Reads` says whether the answer still holds. Bounded in number and bytes; the one that was used longest ago goes first.
 */
export class KeptAnswers {
  readonly #answers = new Map<string, KeptAnswer>();
  readonly #asked = new WeakMap<Viewer, Asked>();
  readonly #mostAnswers: number;
  readonly #mostBytes: number;
  #bytes = 0;

  constructor(mostAnswers = 256, mostBytes = 32 << 20) {
    this.#mostAnswers = mostAnswers;
    this.#mostBytes = mostBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#answers.size;
  }

  /**
   * What an answer to this is kept under. For what a viewer asks again, it is the very same string: to
   * put it together and to hash it would cost more than to compare the bytes.
   */
  keyOf(viewer: Viewer, accept: string, body: Buffer): string {
    const last = this.#asked.get(viewer);
    if (last?.accept === accept && last.body.equals(body)) return last.key;
    const key = `${authorityOf(viewer)}\n${accept}\n${body}`;
    if (body.length <= mostRemembered)
      this.#asked.set(viewer, { accept, body: Buffer.from(body), key });
    return key;
  }

  /** The answer, when everything was read for it a moment ago and is still known as it was. */
  atOnce(key: string, fleet: Pick<Fleet, 'peek' | 'edition'>): KeptAnswer | undefined {
    const answer = this.#answers.get(key);
    if (answer?.readAt === undefined || performance.now() - answer.readAt > readEveryMs)
      return undefined;
    return answer.reads.isStillKnown(fleet) ? answer : undefined;
  }

  /** The answer, when all that it was made of is still the same. */
  async get(key: string, look: Look): Promise<KeptAnswer | undefined> {
    const answer = this.#answers.get(key);
    if (answer === undefined) return undefined;
    answer.readAt = performance.now();
    if (!(await answer.reads.areUnchanged(look))) {
      if (this.#answers.get(key) === answer) this.#drop(key, answer);
      return undefined;
    }
    if (this.#answers.delete(key)) this.#answers.set(key, answer);
    return answer;
  }

  keep(key: string, answer: KeptAnswer): void {
    if (!answer.reads.canBeKept || weight(key, answer) > this.#mostBytes / 8) return;
    const before = this.#answers.get(key);
    if (before !== undefined) this.#drop(key, before);
    this.#answers.set(key, answer);
    this.#bytes += weight(key, answer);
    for (const [oldest, old] of this.#answers) {
      if (this.#answers.size <= this.#mostAnswers && this.#bytes <= this.#mostBytes) break;
      this.#drop(oldest, old);
    }
  }

  #drop(key: string, answer: KeptAnswer): void {
    this.#answers.delete(key);
    this.#bytes -= weight(key, answer);
  }
}

const authorities = new WeakMap<Viewer, string>();

/** Everything about a viewer that an answer may depend on, as a digest: no two have the same. */
export function authorityOf(viewer: Viewer): string {
  let authority = authorities.get(viewer);
  if (authority === undefined) {
    const { member, scopes, memberIds, via, credentialId, madeByAdmin, expiresAt } = viewer;
    const all = JSON.stringify([
      { ...member },
      [...scopes],
      memberIds === null ? null : [...memberIds],
      via,
      credentialId,
      madeByAdmin,
      expiresAt,
    ]);
    authority = hash('sha256', all, 'base64');
    authorities.set(viewer, authority);
  }
  return authority;
}

function weight(key: string, { body }: KeptAnswer): number {
  return key.length * 2 + body.length + 512;
}
