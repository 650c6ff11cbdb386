import { createHmac, timingSafeEqual } from 'node:crypto';
import type { PaneRef } from '../model.ts';

/**
 * A pane by a word that its tools keep: of one member, one life of a tmux server and one pane, until
 * its end. Nobody else can make one, and it is worth nothing on another member's socket.
 */
export class PaneTokens {
  readonly #key: Uint8Array;

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  make({ memberId, pathHex, generation, pane }: PaneRef, endsAt: number): string {
    const said = JSON.stringify([memberId, pathHex, generation, pane, endsAt]);
    const payload = Buffer.from(said).toString('base64url');
    return `mwp_${payload}.${this.#mac(payload).toString('base64url')}`;
  }

  /** Undefined: it was not made here, not for this member, or is over. */
  read(token: string, memberId: string, now: number): PaneRef | undefined {
    const [, payload = '', mac = ''] = /^mwp_([\w-]{1,900})\.([\w-]{43})$/.exec(token) ?? [];
    const given = Buffer.from(mac, 'base64url');
    const due = this.#mac(payload);
    if (given.length !== due.length || !timingSafeEqual(given, due)) return undefined;
    // Our own words, as the mac says.
    const [owner, pathHex, generation, pane, endsAt] = JSON.parse(
      Buffer.from(payload, 'base64url').toString(),
    ) as [string, string, string, number, number];
    if (owner !== memberId || endsAt <= now) return undefined;
    return { memberId, pathHex, generation, pane };
  }

  #mac(payload: string): Buffer {
    return createHmac('sha256', this.#key).update(`pane token ${payload}`).digest();
  }
}
