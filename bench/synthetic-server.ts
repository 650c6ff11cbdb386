import type { MemberListing } from '../src/tmux/model.ts';
import {
  listing,
  memberUuid,
  SyntheticFleet,
  server,
  session,
} from '../tests/support/synthetic-fleet.ts';
import { startService } from '../tests/support/synthetic-service.ts';

/**
 * The real server in front of a fleet without tmux: 100 members with 5 tmux servers each, for
 * bench/members-page.ts. argv says how often a listing is another one: `never`, `interval` (each of
 * them every 5 s, in turn, as a running service looks), `one` or `every` (with each request).
 */
const members = 100;
const intervalMs = 5_000;
const how = process.argv[2] ?? 'never';

class ChangingFleet extends SyntheticFleet {
  readonly #turns = new Map<string, readonly [MemberListing, MemberListing]>();
  readonly #phase = new Map<string, number>();
  readonly #first = memberUuid(1);
  #requests = 0;

  both(one: MemberListing, other: MemberListing): void {
    this.set(one);
    this.#phase.set(one.memberId, (this.#turns.size * intervalMs) / members);
    this.#turns.set(one.memberId, [one, other]);
  }

  override peek(memberId: string): MemberListing | undefined {
    return this.#turns.get(memberId)?.[this.#turnOf(memberId) % 2];
  }

  // Their turns begin evenly spread over the interval.
  override edition(): number {
    return how === 'interval'
      ? Math.floor((performance.now() * members) / intervalMs)
      : this.#requests;
  }

  // One request reads the first member first, and all members at one turn.
  override read(memberId: string): Promise<MemberListing | undefined> {
    if (memberId === this.#first) this.#requests += 1;
    return Promise.resolve(this.peek(memberId));
  }

  #turnOf(memberId: string): number {
    if (how === 'interval') {
      return Math.floor((performance.now() + (this.#phase.get(memberId) ?? 0)) / intervalMs);
    }
    return how === 'every' || (how === 'one' && memberId === this.#first) ? this.#requests : 0;
  }
}

const fleet = new ChangingFleet();
const service = await startService({}, fleet);
for (let number = 1; number <= members; number += 1) {
  const login = `member-${String(number).padStart(3, '0')}`;
  const { id } = service.accounts.add(login, number === 1 ? 'ADMIN' : 'DEVELOPER');
  const at = (second: number) => {
    const servers = Array.from({ length: 5 }, (_, index) =>
      server(id, index, { sessions: [session(index)], cpuPercent: second / 10 }),
    );
    return listing(id, servers, {
      version: `v${second}`,
      observedAt: new Date(Date.UTC(2026, 10, 29, 8, 0, second)),
    });
  };
  fleet.both(at(1), at(2));
}
console.log(service.url);
process.on('SIGTERM', () => process.exit(0));
