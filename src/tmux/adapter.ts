import type { Clock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import type { Edition } from './listing/edition.ts';
import { Listing } from './listing/listing.ts';
import { findServer, locatePane, targetOf, targetProcessOf } from './locate.ts';
import type { MemberHelper, ServerTarget } from './member-helper.ts';
import type {
  InstalledTmux,
  LocatedPane,
  MemberTmux,
  PaneStreams,
  ServerChange,
  TargetProcess,
} from './member-tmux.ts';
import type { MemberListing, PaneRef, ServerRef, ServerView, SessionView } from './model.ts';
import { ServerLocks } from './server-locks.ts';

/** What all members share. */
export interface Surroundings {
  readonly config: Config;
  readonly clock: Clock;
  /** Differs in each life of this service. */
  readonly start: string;
  readonly installedTmux: () => InstalledTmux | undefined;
  readonly edition: Edition;
  readonly changed: (memberId: string) => void;
  readonly streams: (tmux: MemberTmux) => PaneStreams;
}

/** One member's tmux: its helper and its listing, and what plugs into them. */
export class TmuxAdapter implements MemberTmux, AsyncDisposable {
  readonly memberId: string;
  readonly helper: MemberHelper;
  readonly config: Config;
  readonly clock: Clock;
  readonly locks = new ServerLocks();
  readonly listing: Listing;
  readonly streams: PaneStreams;
  readonly #surroundings: Surroundings;

  constructor(memberId: string, helper: MemberHelper, surroundings: Surroundings) {
    const { config, clock, start, edition, changed } = surroundings;
    this.memberId = memberId;
    this.helper = helper;
    this.config = config;
    this.clock = clock;
    this.#surroundings = surroundings;
    this.listing = new Listing({
      memberId,
      helper,
      clock,
      config,
      start,
      installedVersion: () => surroundings.installedTmux()?.version ?? null,
      ownClientPids: () => this.ownClientPids(),
      edition,
      changed: () => changed(memberId),
    });
    this.streams = surroundings.streams(this);
  }

  peek(): MemberListing {
    return this.listing.peek();
  }

  refresh(): Promise<MemberListing> {
    return this.listing.refresh();
  }

  doorbell(): void {
    this.listing.doorbell();
  }

  server(ref: ServerRef): ServerView | undefined {
    return findServer(this.peek(), ref);
  }

  lastSessions(server: ServerView): readonly SessionView[] | null {
    return this.listing.lastSessions(server);
  }

  absentServer(ref: ServerRef): ServerView {
    const { status } = this.peek();
    return {
      ref,
      socketPath: Buffer.from(ref.pathHex, 'hex').toString('utf8'),
      status: 'ABSENT',
      reason: null,
      detail: null,
      generation: null,
      pid: null,
      startedAt: null,
      version: null,
      installedVersion: this.installedTmux()?.version ?? null,
      outdated: null,
      binaryDeleted: null,
      openFiles: null,
      openFilesLimit: null,
      cpuPercent: null,
      attachedClients: 0,
      idle: null,
      workingAgents: 0,
      activity: [],
      tmuxStartTime: null,
      listing: {
        ...status,
        state: 'FRESH',
        version: `${status.version}-absent`,
        reason: null,
        detail: null,
        consecutiveFailures: 0,
        nextAttemptAt: null,
      },
      sessions: [],
    };
  }

  locatePane(pane: PaneRef): LocatedPane {
    return locatePane(this.peek(), pane);
  }

  async findPane(pane: PaneRef): Promise<LocatedPane> {
    return locatePane(await this.listing.read(), pane);
  }

  target(server: ServerView): ServerTarget {
    return targetOf(server);
  }

  targetProcess(server: ServerView): TargetProcess {
    return targetProcessOf(server);
  }

  writeThrough(ref: ServerRef, change: ServerChange): void {
    this.listing.writeThrough(ref, change);
  }

  installedTmux(): InstalledTmux | undefined {
    return this.#surroundings.installedTmux();
  }

  ownClientPids(): ReadonlySet<number> {
    return this.streams.ownClientPids();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.listing[Symbol.dispose]();
    await this.streams[Symbol.asyncDispose]();
    await this.helper[Symbol.asyncDispose]();
  }
}
