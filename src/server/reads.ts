import type { Accounts, ApiKey } from '../auth/accounts.ts';
import type { Member } from '../members/member.ts';
import type { Fleet } from '../tmux/fleet.ts';
import type { MemberListing } from '../tmux/model.ts';
import type { Parts } from './request-context.ts';

/**
 * What an answer was made of. An answer is the same as before exactly when the same viewer sends the
 * same document and variables, and every value that was read is still the very same object: listings
 * and the lists of accounts are immutable and replaced as a whole. (Versions would not do: figures
 * such as `cpuPercent` change without one.) Whatever else is touched - a capture, the audit log, the
 * installation's figures - makes an answer that is not kept.
 */
export class Reads {
  readonly #accounts: Accounts;
  readonly #listings = new Map<string, MemberListing | undefined>();
  /** The edition of the fleet at which all of them were seen to be the same. */
  #edition: number | undefined;
  #members: readonly Member[] | undefined;
  #apiKeys: readonly ApiKey[] | undefined;
  #spoilt = false;

  constructor({ accounts }: Pick<Parts, 'accounts'>) {
    this.#accounts = accounts;
  }

  /** Everything that was read can be compared later. */
  get canBeKept(): boolean {
    return !this.#spoilt;
  }

  /** Whose listings were read. */
  get memberIds(): readonly string[] {
    return [...this.#listings.keys()];
  }

  spoil(): void {
    this.#spoilt = true;
  }

  /** What the other was made of, this is made of as well. */
  include(other: Reads): void {
    if (other.#spoilt) this.spoil();
    for (const [memberId, listing] of other.#listings) this.#note(memberId, listing);
    if (other.#members !== undefined) this.#members = this.#same(this.#members, other.#members);
    if (other.#apiKeys !== undefined) this.#apiKeys = this.#same(this.#apiKeys, other.#apiKeys);
  }

  /** What is known now, asking nobody, is still all of it. */
  isStillKnown(fleet: Pick<Fleet, 'peek' | 'edition'>): boolean {
    if (!this.#areAccountsUnchanged()) return false;
    const edition = fleet.edition();
    if (edition === this.#edition) return true;
    for (const [memberId, seen] of this.#listings) if (fleet.peek(memberId) !== seen) return false;
    this.#edition = edition;
    return true;
  }

  /** Reads all of it again, as executing the operation would, and compares. */
  async areUnchanged(look: Look): Promise<boolean> {
    await look.at(this.#listings.keys());
    return this.areSeenUnchanged(look);
  }

  /** The same of what was looked at before; false for what was not. */
  areSeenUnchanged(look: Look): boolean {
    if (!this.#areAccountsUnchanged()) return false;
    for (const [memberId, before] of this.#listings)
      if (!look.has(memberId) || look.seen(memberId) !== before) return false;
    return true;
  }

  /** The same parts, which note what is read from them. */
  through(parts: Parts, look: Pick<Fleet, 'read'> = parts.fleet): Parts {
    const reads = this;
    return {
      config: parts.config,
      fleet: this.#notingFleet(parts.fleet, look),
      accounts: this.#notingAccounts(parts.accounts),
      get audit() {
        reads.spoil();
        return parts.audit;
      },
      get reauthentication() {
        reads.spoil();
        return parts.reauthentication;
      },
      get changes() {
        reads.spoil();
        return parts.changes;
      },
      get signing() {
        reads.spoil();
        return parts.signing;
      },
      get installation() {
        reads.spoil();
        return parts.installation;
      },
    };
  }

  #areAccountsUnchanged(): boolean {
    if (this.#members !== undefined && this.#accounts.members() !== this.#members) return false;
    return this.#apiKeys === undefined || this.#accounts.apiKeys() === this.#apiKeys;
  }

  #note(memberId: string, listing: MemberListing | undefined): MemberListing | undefined {
    if (this.#listings.has(memberId) && this.#listings.get(memberId) !== listing) this.spoil();
    this.#listings.set(memberId, listing);
    this.#edition = undefined;
    return listing;
  }

  /** One answer that saw two states of the same list is no answer to keep. */
  #same<List>(before: List | undefined, now: List): List {
    if (before !== undefined && before !== now) this.spoil();
    return now;
  }

  #notingFleet(fleet: Fleet, look: Pick<Fleet, 'read'>): Fleet {
    const spoil = () => this.spoil();
    const elsewhere =
      <Arguments extends unknown[], Result>(call: (...given: Arguments) => Result) =>
      (...given: Arguments): Result => {
        spoil();
        return call(...given);
      };
    return {
      peek: (memberId) => this.#note(memberId, fleet.peek(memberId)),
      edition: elsewhere(() => fleet.edition()),
      read: async (memberId) => this.#note(memberId, await look.read(memberId)),
      refresh: elsewhere((memberId) => fleet.refresh(memberId)),
      setAccounts: elsewhere((accounts) => fleet.setAccounts(accounts)),
      follow: elsewhere((memberIds, signal) => fleet.follow(memberIds, signal)),
      screens: elsewhere((pane, everyMs, signal) => fleet.screens(pane, everyMs, signal)),
      output: elsewhere((pane, after, signal) => fleet.output(pane, after, signal)),
      capture: elsewhere((pane, lines, signal) => fleet.capture(pane, lines, signal)),
      prepareRestartServer: elsewhere((request) => fleet.prepareRestartServer(request)),
      prepareRestartPane: elsewhere((request) => fleet.prepareRestartPane(request)),
      prepareRepairServer: elsewhere((request) => fleet.prepareRepairServer(request)),
      prepareProvision: elsewhere((request) => fleet.prepareProvision(request)),
      wouldEnd: elsewhere((server, expected) => fleet.wouldEnd(server, expected)),
      look: elsewhere((server) => fleet.look(server)),
      problems: elsewhere(() => fleet.problems()),
      figures: elsewhere(() => fleet.figures()),
      [Symbol.asyncDispose]: elsewhere(() => fleet[Symbol.asyncDispose]()),
    };
  }

  #notingAccounts(accounts: Accounts): Accounts {
    const members = () => {
      this.#members = this.#same(this.#members, accounts.members());
      return this.#members;
    };
    return {
      members,
      member: (id) => {
        members();
        return accounts.member(id);
      },
      memberByLogin: (login) => {
        members();
        return accounts.memberByLogin(login);
      },
      apiKeys: () => {
        this.#apiKeys = this.#same(this.#apiKeys, accounts.apiKeys());
        return this.#apiKeys;
      },
      current: (viewer) => accounts.current(viewer),
      changed: accounts.changed,
    };
  }
}

/** Reads each member once: a whole answer is compared, and made, with the same values. */
export class Look implements Pick<Fleet, 'read'> {
  readonly #fleet: Fleet;
  readonly #reading = new Map<string, Promise<MemberListing | undefined>>();
  readonly #seen = new Map<string, MemberListing | undefined>();

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  read(memberId: string): Promise<MemberListing | undefined> {
    if (this.#seen.has(memberId)) return Promise.resolve(this.#seen.get(memberId));
    let reading = this.#reading.get(memberId);
    if (reading === undefined) {
      reading = this.#fleet.read(memberId);
      this.#reading.set(memberId, reading);
    }
    return reading;
  }

  /** Afterwards all of them are seen. */
  async at(memberIds: Iterable<string>): Promise<void> {
    const ids: string[] = [];
    const reading: Promise<MemberListing | undefined>[] = [];
    for (const id of memberIds) {
      if (this.#seen.has(id)) continue;
      ids.push(id);
      reading.push(this.#reading.get(id) ?? this.#fleet.read(id));
    }
    if (ids.length === 0) return;
    const listings = await Promise.all(reading);
    for (const [index, id] of ids.entries()) this.#seen.set(id, listings[index]);
  }

  has(memberId: string): boolean {
    return this.#seen.has(memberId);
  }

  seen(memberId: string): MemberListing | undefined {
    return this.#seen.get(memberId);
  }
}
