import { Bell } from '../concurrency/bell.ts';
import { type Clock, sleep, systemClock } from '../concurrency/clock.ts';
import type { Database, Log } from '../database/database.ts';
import type { Member } from '../members/member.ts';
import { type AccountCopy, copyOf } from './account-copy.ts';
import { readAccountRows, type SessionRow } from './account-rows.ts';
import type { Accounts, ApiKey } from './accounts.ts';
import { parseKey } from './api-key.ts';
import type { KeyProof } from './api-keys.ts';
import { Ends, storeEnds } from './ends.ts';
import { LastUse } from './last-use.ts';
import { hashOf, sameHash } from './secret.ts';
import { type Authenticated, scopes as allScopes, type Scope, type Viewer } from './viewer.ts';

/**
 * Everything about accounts in memory: a copy of one moment of the database, replaced as a whole.
 * It is read again when the database announces a change, every few seconds in any case, and once
 * for a credential that is not known yet. When reading fails, the last copy stays: reads of known
 * viewers go on while the database is away.
 */
export interface AccountStore extends Accounts, AsyncDisposable {
  /** The viewer of an API key (`mw_…`); undefined for every kind of refusal. */
  authenticateKey(key: string): Authenticated;
  /** The viewer of a session's cookie. */
  authenticateSession(token: string): Authenticated;
  /** Undefined: no such member; null: a member without a password. */
  passwordHash(memberId: string): string | null | undefined;
  /** A copy that is not older than this call. */
  reload(): Promise<void>;
}

export interface AccountStoreOptions {
  readonly log?: Log;
  readonly reloadMs?: number;
}

/** Reads the accounts once, so that a database that can't answer fails here, and follows them. */
export async function openAccounts(
  database: Database,
  clock: Clock = systemClock,
  options: AccountStoreOptions = {},
): Promise<AccountStore> {
  const accounts = new MemoryAccounts(database, clock, options);
  await accounts.reload();
  accounts.follow();
  return accounts;
}

/** Reads for unknown credentials happen at most this often, whoever guesses. */
const guessEveryMs = 200;
/** And none of them waits longer, also when the database is away. */
const guessWaitMs = 2_000;

class MemoryAccounts implements AccountStore {
  readonly changed = new Bell();
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #log: Log | undefined;
  readonly #reloadMs: number;
  readonly #stop = new AbortController();
  readonly #keyUse: LastUse;
  readonly #sessionUse: LastUse;
  readonly #ends: Ends;
  #following: Promise<void> | undefined;
  #copy: AccountCopy = copyOf({ members: [], apiKeys: [], sessions: [], links: [], grants: [] });
  #reading: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #guess: Promise<void> | undefined;
  #failing = false;
  #unmarked = false;
  /** One object for each credential as long as nothing changes, so that what is derived from it is made once. */
  readonly #viewers = new WeakMap<ApiKey | SessionRow, Viewer>();

  constructor(database: Database, clock: Clock, options: AccountStoreOptions) {
    this.#database = database;
    this.#clock = clock;
    this.#log = options.log;
    this.#reloadMs = options.reloadMs ?? 5_000;
    this.#keyUse = new LastUse(database, 'api_keys', clock, options.log);
    this.#sessionUse = new LastUse(database, 'sessions', clock, options.log);
    this.#ends = new Ends(clock);
  }

  members(): readonly Member[] {
    return this.#copy.sorted;
  }

  member(id: string): Member | undefined {
    return this.#copy.members.get(id);
  }

  memberByLogin(login: string): Member | undefined {
    return this.#copy.sorted.find((member) => member.login === login);
  }

  apiKeys(): readonly ApiKey[] {
    return this.#copy.apiKeys.map(({ secretHash: _, madeByAdmin: __, ...key }) => ({
      ...key,
      lastUsedAt: this.#keyUse.of(key.id, key.lastUsedAt),
    }));
  }

  passwordHash(memberId: string): string | null | undefined {
    return this.#copy.passwordHashes.get(memberId);
  }

  current(viewer: Viewer): Viewer | undefined {
    if (viewer.via === 'API_KEY') {
      const key = this.#copy.keysById.get(viewer.credentialId);
      return key && this.#keyViewer(key);
    }
    const session = this.#copy.sessionsById.get(viewer.credentialId);
    return session && this.#sessionViewer(session);
  }

  authenticateKey(text: string): Authenticated {
    const parts = parseKey(text);
    if (parts === undefined) return undefined;
    const hash = hashOf(parts.secret);
    const find = () => this.#copy.keysByPublicId.get(parts.publicId);
    const viewerOf = (key: (ApiKey & KeyProof) | undefined) => {
      if (key === undefined || !sameHash(hash, key.secretHash)) return undefined;
      const viewer = this.#keyViewer(key);
      if (viewer !== undefined) this.#keyUse.touch(key.id);
      return viewer;
    };
    const key = find();
    return key === undefined ? this.#afterReading(find).then(viewerOf) : viewerOf(key);
  }

  authenticateSession(token: string): Authenticated {
    if (!/^[\w-]{43}$/.test(token)) return undefined;
    const hash = hashOf(token).toString('hex');
    const find = () => this.#copy.sessionsByHash.get(hash);
    const viewerOf = (session: SessionRow | undefined) => {
      const viewer = session && this.#sessionViewer(session);
      if (session !== undefined && viewer !== undefined) this.#sessionUse.touch(session.id);
      return viewer;
    };
    const session = find();
    return session === undefined ? this.#afterReading(find).then(viewerOf) : viewerOf(session);
  }

  reload(): Promise<void> {
    if (this.#reading === undefined) {
      this.#reading = this.#read().finally(() => {
        this.#reading = undefined;
      });
      return this.#reading;
    }
    // The read under way may have looked before what the caller knows of.
    const again = () => {
      this.#next = undefined;
      return this.reload();
    };
    this.#next ??= this.#reading.then(again, again);
    return this.#next;
  }

  follow(): void {
    this.#following = this.#follow();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#following;
    await Promise.allSettled([this.#next, this.#reading]);
    await this.#keyUse.close();
    await this.#sessionUse.close();
  }

  async #follow(): Promise<void> {
    const bell = this.#database.notifications.bell('muxwarden_accounts');
    while (!this.#stop.signal.aborted) {
      const turn = new AbortController();
      const rung = bell.wait(AbortSignal.any([turn.signal, this.#stop.signal]));
      const cancel = this.#clock.after(this.#reloadMs, () => turn.abort());
      await rung;
      cancel();
      if (this.#stop.signal.aborted) return;
      try {
        await this.reload();
        if (this.#failing) this.#log?.info({}, 'accounts are read again');
        this.#failing = false;
      } catch (err) {
        if (!this.#failing)
          this.#log?.warn({ err }, 'accounts can not be read; the last ones hold');
        this.#failing = true;
      }
    }
  }

  async #read(): Promise<void> {
    const rows = await readAccountRows(this.#database, this.#clock.now());
    const over = this.#ends.among(rows, (session) => this.#lastSeen(session));
    const sessions = rows.sessions.filter((session) => !over.sessions.includes(session));
    const copy = copyOf({ ...rows, sessions }, this.#copy);
    const same = copy.fingerprint === this.#copy.fingerprint;
    this.#copy = copy;
    this.#keyUse.keep(new Set(copy.keysById.keys()));
    this.#sessionUse.keep(new Set(copy.sessionsById.keys()));
    if (!same) this.changed.ring();
    try {
      await storeEnds(this.#database, over, new Date(this.#clock.now()));
      this.#unmarked = false;
    } catch (err) {
      if (!this.#unmarked)
        this.#log?.warn({ err }, 'credentials that are over could not be marked so; trying again');
      this.#unmarked = true;
    }
  }

  /** Looks again after one more read, for a credential made a moment ago by another process. */
  async #afterReading<T>(find: () => T | undefined): Promise<T | undefined> {
    this.#guess ??= sleep(guessEveryMs, this.#clock)
      .then(() => {
        this.#guess = undefined;
        return this.reload();
      })
      // Whoever reads on a schedule tells of it; the credential stays unknown.
      .catch(() => undefined);
    const enough = new AbortController();
    const cancel = this.#clock.after(guessWaitMs, () => enough.abort());
    await new Promise<void>((resolve) => {
      enough.signal.addEventListener('abort', () => resolve(), { once: true });
      void this.#guess?.then(resolve);
    });
    cancel();
    return find();
  }

  #keyViewer(key: ApiKey & KeyProof): Viewer | undefined {
    const member = this.#active(key.memberId);
    if (member === undefined || key.revokedAt !== null || this.#ends.keyIsOver(key))
      return undefined;
    const known = this.#viewers.get(key);
    if (known?.member === member) return known;
    const viewer: Viewer = {
      member,
      scopes: new Set(key.scopes),
      memberIds: key.memberIds === null ? null : new Set(key.memberIds),
      via: 'API_KEY',
      credentialId: key.id,
      madeByAdmin: key.madeByAdmin,
      expiresAt: key.expiresAt,
    };
    this.#viewers.set(key, viewer);
    return viewer;
  }

  #sessionViewer(session: SessionRow): Viewer | undefined {
    const member = this.#active(session.memberId);
    if (member === undefined || this.#ends.sessionIsOver(session, this.#lastSeen(session)))
      return undefined;
    const known = this.#viewers.get(session);
    if (known?.member === member) return known;
    const viewer: Viewer = {
      member,
      scopes: everyScope,
      memberIds: null,
      via: session.via,
      credentialId: session.id,
      madeByAdmin: false,
      expiresAt: session.expiresAt,
    };
    this.#viewers.set(session, viewer);
    return viewer;
  }

  #active(memberId: string): Member | undefined {
    const member = this.#copy.members.get(memberId);
    return member?.disabled === false ? member : undefined;
  }

  #lastSeen({ id, lastSeenAt }: SessionRow): Date {
    return this.#sessionUse.of(id, lastSeenAt) ?? lastSeenAt;
  }
}

const everyScope: ReadonlySet<Scope> = new Set(allScopes);
