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
 * bench/members-page.ts. argv says how many listings are others at each request: 0, 1 or 100.
 */
const members = 100;
const changing = Number(process.argv[2] ?? 0);

class ChangingFleet extends SyntheticFleet {
  readonly #turns = new Map<string, readonly [MemberListing, MemberListing]>();
  #turn = 0;
  readonly #first = memberUuid(1);

  both(one: MemberListing, other: MemberListing, changes: boolean): void {
    this.set(one);
    if (changes) this.#turns.set(one.memberId, [one, other]);
  }

  // One request reads the first member first, and all members at one turn.
  override read(memberId: string): Promise<MemberListing | undefined> {
    if (memberId === this.#first) this.#turn += 1;
    const pair = this.#turns.get(memberId);
    return pair === undefined ? super.read(memberId) : Promise.resolve(pair[this.#turn % 2]);
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
  fleet.both(at(1), at(2), number <= changing);
}
console.log(service.url);
process.on('SIGTERM', () => process.exit(0));
