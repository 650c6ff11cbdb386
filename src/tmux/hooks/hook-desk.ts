import { type Clock, sleep } from '../../concurrency/clock.ts';
import type { AgentState, MemberListing, PaneRef } from '../model.ts';
import type { PaneTokens } from './pane-token.ts';

/**
 * What a member's tool reports, on that member's own socket: the state of the agent in a pane, which
 * it names by `$TMUX $TMUX_PANE` or by a token that it was given. It is his word about himself, so
 * what is checked is that the pane is there, in that life of that server.
 *
 * A token stays good while nothing is known of the server. It ends with the pane, with the server's
 * life, and after a day.
 */
export interface HookMember {
  readonly memberId: string;
  peek(): MemberListing;
  /** Asks now; bounded. */
  refresh(): Promise<MemberListing>;
  report(pane: PaneRef, state: AgentState): void;
}

export interface HookAnswer {
  readonly status: 200 | 400 | 403 | 404 | 503;
  readonly text: string;
}

const states: Readonly<Record<string, AgentState>> = {
  working: 'WORKING',
  waiting: 'WAITING',
  idle: 'IDLE',
};
const tokenMs = 24 * 3_600_000;
/** A pane that was just made is asked for, but not more often than that. */
const lookAgainMs = 1_000;

export class HookDesk {
  readonly #tokens: PaneTokens;
  readonly #clock: Clock;
  readonly #lookedAt = new WeakMap<HookMember, number>();
  readonly #looks = new WeakMap<HookMember, Promise<MemberListing>>();

  constructor(tokens: PaneTokens, clock: Clock) {
    this.#tokens = tokens;
    this.#clock = clock;
  }

  async answer(member: HookMember, target: string, body: string): Promise<HookAnswer> {
    const state = /^\/state\/(\w+)$/.exec(target)?.[1];
    if (target !== '/token' && states[state ?? ''] === undefined)
      return say(404, 'there are /token and /state/working, /state/waiting, /state/idle');
    const named = await this.#paneOf(member, body.trim(), target === '/token');
    if (!('pane' in named)) return named;
    if (target === '/token') return say(200, this.#tokens.make(named, this.#clock.now() + tokenMs));
    member.report(named, states[state ?? ''] ?? 'UNKNOWN');
    return say(200, 'ok');
  }

  async #paneOf(
    member: HookMember,
    body: string,
    mustBeSeen: boolean,
  ): Promise<PaneRef | HookAnswer> {
    if (body.startsWith('mwp_')) {
      const pane = this.#tokens.read(body, member.memberId, this.#clock.now());
      if (pane === undefined) return say(403, 'that token is not for this, or over');
      const seen = sight(member.peek(), pane);
      if (seen === 'gone') return say(403, 'the pane of that token is gone');
      return mustBeSeen && seen === 'unknown' ? notKnown : pane;
    }
    const [, path = '', pid = '', number = ''] =
      /^(\/.+),(\d{1,10}),\d+ %(\d{1,9})$/.exec(body) ?? [];
    if (path === '') return say(400, 'it takes "$TMUX $TMUX_PANE", or a token');
    const claim = { pathHex: Buffer.from(path).toString('hex'), pid: Number(pid) };
    const find = (listing: MemberListing) => claimed(listing, claim, Number(number));
    const known = find(member.peek());
    return 'pane' in known ? known : find(await this.#look(member));
  }

  /** All who ask within one pause share the look at its end. */
  #look(member: HookMember): Promise<MemberListing> {
    const under = this.#looks.get(member);
    if (under !== undefined) return under;
    const wait = (this.#lookedAt.get(member) ?? Number.NEGATIVE_INFINITY) + lookAgainMs;
    const look = (async () => {
      await sleep(Math.max(0, wait - this.#clock.monotonic()), this.#clock);
      this.#looks.delete(member);
      this.#lookedAt.set(member, this.#clock.monotonic());
      return await member.refresh();
    })();
    this.#looks.set(member, look);
    return look;
  }
}

function claimed(
  listing: MemberListing,
  claim: { readonly pathHex: string; readonly pid: number },
  pane: number,
): PaneRef | HookAnswer {
  const { memberId, servers } = listing;
  const server = servers?.find(
    ({ ref, pid }) => ref.pathHex === claim.pathHex && pid === claim.pid,
  );
  if (servers === null || (server !== undefined && server.sessions === null)) return notKnown;
  if (server?.generation == null) return say(404, 'there is no such tmux server of yours');
  const ref = { memberId, pathHex: claim.pathHex, generation: server.generation, pane };
  const seen = sight(listing, ref);
  if (seen === 'unknown') return notKnown;
  return seen === 'there' ? ref : say(404, 'there is no such pane');
}

/** Gone only where that was seen. */
function sight(
  { servers, status }: MemberListing,
  { pathHex, generation, pane }: PaneRef,
): 'there' | 'gone' | 'unknown' {
  const server = servers?.find(
    ({ ref }) => ref.pathHex === pathHex && ref.generation === undefined,
  );
  if (server === undefined)
    return servers !== null && status.state === 'FRESH' ? 'gone' : 'unknown';
  if (server.status === 'UNKNOWN') return 'unknown';
  if (server.generation !== generation && server.listing.state === 'FRESH') return 'gone';
  if (server.sessions === null || server.listing.state !== 'FRESH') return 'unknown';
  const panes = server.sessions.flatMap(({ windows }) => windows).flatMap(({ panes }) => panes);
  return panes.some((view) => view.pane === pane && !view.dead) ? 'there' : 'gone';
}

const say = (status: HookAnswer['status'], text: string): HookAnswer => ({ status, text });
const notKnown = say(503, 'nothing is known of that tmux server just now');
