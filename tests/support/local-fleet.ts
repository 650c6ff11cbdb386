import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../src/concurrency/clock.ts';
import { readConfig } from '../../src/config.ts';
import { LocalFleet } from '../../src/tmux/local-fleet.ts';
import type { ListingChange, MemberListing, ServerView } from '../../src/tmux/model.ts';
import { type StartOptions, startTmux, type TmuxServer } from './tmux-server.ts';

/** A fleet in local mode over private socket directories, through the real helper. */
export interface LocalFleetFixture extends AsyncDisposable {
  readonly fleet: LocalFleet;
  /** A 0700 directory that the first member's sockets are in. */
  readonly directory: string;
  readonly memberId: string;
  /** Starts a tmux server in the directory; it ends with the fixture. */
  tmux(options?: Omit<StartOptions, 'directory'>): Promise<TmuxServer>;
  read(): Promise<MemberListing>;
  refresh(): Promise<MemberListing>;
  /** The server of that socket name, as it was last read. */
  server(name?: string): ServerView;
  follow(): Following;
}

export interface LocalFleetOptions {
  readonly environment?: Readonly<Record<string, string>>;
  /** Default: `['alice']`, each of them with the same Linux user and directory. */
  readonly memberIds?: readonly string[];
  readonly clock?: Clock;
}

export async function localFleet(options: LocalFleetOptions = {}): Promise<LocalFleetFixture> {
  const directory = await mkdtemp(join(tmpdir(), 'mw-'));
  const memberIds = options.memberIds ?? ['alice'];
  const [memberId = 'alice'] = memberIds;
  const stack = new AsyncDisposableStack();
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const fleet = stack.use(
    new LocalFleet({
      config: readConfig({
        HOME: directory,
        MUXWARDEN_SOCKET_DIRS: directory,
        MUXWARDEN_STATE_DIR: directory,
        ...options.environment,
      }),
      ...(options.clock && { clock: options.clock }),
    }),
  );
  await fleet.prepare();
  const osUser = userInfo().username;
  fleet.setAccounts(memberIds.map((id) => ({ memberId: id, osUser })));
  const known = (listing: MemberListing | undefined): MemberListing => {
    if (listing === undefined) throw new Error(`the fleet does not know ${memberId}`);
    return listing;
  };
  return {
    fleet,
    directory,
    memberId,
    async tmux(start = {}) {
      return stack.use(await startTmux({ ...start, directory }));
    },
    read: async () => known(await fleet.read(memberId)),
    refresh: async () => known(await fleet.refresh(memberId)),
    server(name = 'default') {
      const path = join(directory, name);
      const { servers } = known(fleet.peek(memberId));
      const found = servers?.find((server) => server.socketPath === path);
      if (found === undefined) throw new Error(`no server at ${path}`);
      return found;
    },
    follow() {
      return stack.use(new Following(fleet, () => memberIds));
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** A follower that reads all it gets. */
export class Following implements AsyncDisposable {
  readonly changes: ListingChange[] = [];
  readonly #abort = new AbortController();
  readonly #done: Promise<void>;

  constructor(fleet: LocalFleet, memberIds: () => readonly string[]) {
    this.#done = (async () => {
      for await (const change of fleet.follow(memberIds, this.#abort.signal)) {
        this.changes.push(change);
      }
    })();
  }

  get isSynced(): boolean {
    return this.changes.some(({ kind }) => kind === 'synced');
  }

  /** Names of the sessions of the first server, for each listing that came. */
  get sessionNames(): readonly (readonly string[])[] {
    return this.changes.flatMap((change) =>
      change.kind === 'listing'
        ? [(change.listing.servers?.[0]?.sessions ?? []).map(({ name }) => name)]
        : [],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await this.#done;
  }
}
