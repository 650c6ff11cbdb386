import { randomBytes } from 'node:crypto';
import { access } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { type Clock, systemClock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import type {
  PreparedAct,
  PreparedProvision,
  ProvisionRequest,
  RepairServerRequest,
  RepairServerResult,
  RestartPaneRequest,
  RestartPaneResult,
  RestartServerRequest,
  RestartServerResult,
  ServerState,
  Survivor,
} from './acts.ts';
import { type Surroundings, TmuxAdapter } from './adapter.ts';
import { NotFoundError } from './errors.ts';
import type { Fleet, FleetFigures, Problem } from './fleet.ts';
import { ProcessHelper } from './helper/helper.ts';
import { Processes } from './helper/process.ts';
import { directReach, sudoReach } from './helper/reach.ts';
import { RefusingHelper } from './helper/refusing-helper.ts';
import { Hooks } from './hooks/hooks.ts';
import { TmuxOnMachine } from './installed-tmux.ts';
import { Edition } from './listing/edition.ts';
import { Followers } from './listing/follow.ts';
import type { MemberHelper } from './member-helper.ts';
import type { MemberTmux, PaneStreams } from './member-tmux.ts';
import type {
  Account,
  Generation,
  ListingChange,
  MemberListing,
  PaneRef,
  ServerRef,
} from './model.ts';
import { PaneOutputs } from './output/pane-output.ts';
import type { PaneCapture, PaneOutputEvent, PaneScreenEvent } from './pane-events.ts';
import { problemsOf } from './problems.ts';
import { Provisioner } from './provision/provision-account.ts';
import { prepareRepairServer } from './repair/repair-server.ts';
import { prepareRestartPane } from './restart/restart-pane.ts';
import { prepareRestartServer } from './restart/restart-server.ts';
import { lookAtServer } from './restart/server-state.ts';
import { wouldEnd } from './restart/would-end.ts';

/**
 * The members whose tmux is on this machine. In local mode that is one Linux user, the service's
 * own; in system mode each member is another one, reached through sudo.
 *
 * Nothing here waits for a member but what says so, and no member's trouble is another's.
 */
export interface LocalFleetOptions {
  readonly config: Config;
  readonly streams?: (tmux: MemberTmux) => PaneStreams;
  readonly clock?: Clock;
  /** Whether members' tools may report. */
  readonly hooks?: boolean;
  /** Where tmux is looked for, as `PATH`. */
  readonly searchPath?: string;
}

interface Entry {
  readonly osUser: string | null;
  /** Undefined for an account without a Linux user: there is nothing to look at. */
  readonly adapter: TmuxAdapter | undefined;
  readonly empty: MemberListing;
}

const helperCheckMs = 60_000;
const userName = /^[a-z_][a-z0-9._-]{0,31}\$?$/i;

export class LocalFleet implements Fleet {
  readonly #config: Config;
  readonly #clock: Clock;
  readonly #streams: (tmux: MemberTmux) => PaneStreams;
  readonly #processes: Processes;
  readonly #provisioner: Provisioner;
  readonly #hooks: Hooks | undefined;
  readonly #tmux: TmuxOnMachine;
  readonly #followers: Followers;
  readonly #edition = new Edition();
  readonly #start = randomBytes(6).toString('hex');
  readonly #ownUser = userInfo();
  readonly #entries = new Map<string, Entry>();
  readonly #leaving = new Set<Promise<void>>();
  readonly #closed = new AbortController();
  #lives = 0;
  #helperIsThere: boolean | undefined;
  #helperCheckedAt = Number.NEGATIVE_INFINITY;

  constructor({
    config,
    streams = (tmux) => new PaneOutputs({ tmux }),
    clock = systemClock,
    hooks = false,
    searchPath = process.env.PATH,
  }: LocalFleetOptions) {
    this.#config = config;
    this.#clock = clock;
    this.#streams = streams;
    this.#processes = new Processes(config.processLimit);
    this.#provisioner = new Provisioner({
      program: config.provision,
      mode: config.mode,
      processes: this.#processes,
      clock,
    });
    this.#hooks = hooks ? new Hooks(config, clock) : undefined;
    this.#tmux = new TmuxOnMachine(config.tmuxBin, clock, searchPath);
    this.#followers = new Followers(
      {
        peek: (memberId) => this.peek(memberId),
        read: (memberId) => this.read(memberId),
        watch: (memberId) => this.#entries.get(memberId)?.adapter?.listing.watch() ?? (() => {}),
      },
      clock,
    );
  }

  /** Looks once for tmux and the helper, so that the first answers know of them. */
  async prepare(): Promise<void> {
    await Promise.all([this.#tmux.look(), this.#checkHelper()]);
  }

  setAccounts(accounts: readonly Account[]): void {
    const wanted = new Map(accounts.map(({ memberId, osUser }) => [memberId, osUser]));
    for (const [memberId, entry] of this.#entries) {
      if (wanted.has(memberId) && wanted.get(memberId) === entry.osUser) continue;
      this.#entries.delete(memberId);
      this.#leave(entry);
    }
    for (const [memberId, osUser] of wanted) {
      if (!this.#entries.has(memberId)) this.#entries.set(memberId, this.#enter(memberId, osUser));
    }
    this.#edition.turn();
    this.#followers.membersChanged();
  }

  peek(memberId: string): MemberListing | undefined {
    const entry = this.#entries.get(memberId);
    return entry?.adapter?.peek() ?? entry?.empty;
  }

  edition(): number {
    return this.#edition.at(this.#clock.monotonic(), () => {
      for (const { adapter } of this.#entries.values()) {
        adapter?.peek();
        adapter?.listing.tellEdition();
      }
    });
  }

  async read(memberId: string): Promise<MemberListing | undefined> {
    const entry = this.#entries.get(memberId);
    return (await entry?.adapter?.listing.read()) ?? entry?.empty;
  }

  async refresh(memberId: string): Promise<MemberListing | undefined> {
    const entry = this.#entries.get(memberId);
    return (await entry?.adapter?.refresh()) ?? entry?.empty;
  }

  follow(memberIds: () => readonly string[], signal: AbortSignal): AsyncIterable<ListingChange> {
    return this.#followers.follow(memberIds, AbortSignal.any([signal, this.#closed.signal]));
  }

  output(
    pane: PaneRef,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncIterable<PaneOutputEvent, void, undefined> {
    return this.#adapter(pane.memberId).streams.output(pane, after, signal);
  }

  screens(
    pane: PaneRef,
    everyMs: number,
    signal: AbortSignal,
  ): AsyncIterable<PaneScreenEvent, void, undefined> {
    return this.#adapter(pane.memberId).streams.screens(pane, everyMs, signal);
  }

  async capture(pane: PaneRef, lines: number, signal?: AbortSignal): Promise<PaneCapture> {
    return await this.#adapter(pane.memberId).streams.capture(pane, lines, signal);
  }

  async prepareRestartServer(
    request: RestartServerRequest,
  ): Promise<PreparedAct<RestartServerResult>> {
    return await prepareRestartServer(this.#adapter(request.server.memberId), request);
  }

  async prepareRestartPane(request: RestartPaneRequest): Promise<PreparedAct<RestartPaneResult>> {
    return await prepareRestartPane(this.#adapter(request.pane.memberId), request);
  }

  async wouldEnd(server: ServerRef, expected: Generation): Promise<readonly Survivor[]> {
    return await wouldEnd(this.#adapter(server.memberId), server, expected);
  }

  async prepareRepairServer(
    request: RepairServerRequest,
  ): Promise<PreparedAct<RepairServerResult>> {
    return await prepareRepairServer(this.#adapter(request.server.memberId), request);
  }

  prepareProvision(request: ProvisionRequest): Promise<PreparedProvision> {
    return this.#provisioner.prepare(request);
  }

  async look(server: ServerRef): Promise<ServerState> {
    return await lookAtServer(this.#adapter(server.memberId), server);
  }

  problems(): readonly Problem[] {
    if (this.#clock.monotonic() - this.#helperCheckedAt >= helperCheckMs) void this.#checkHelper();
    const installedTmux = this.#tmux.peek();
    return problemsOf({
      config: this.#config,
      asRoot: this.#ownUser.uid === 0,
      helperIsThere: this.#helperIsThere,
      installedTmux,
      tmuxWasLookedFor: this.#tmux.wasLookedFor,
      hooks: this.#hooks?.refusals() ?? [],
      listings: [...this.#entries.keys()].flatMap((memberId) => this.peek(memberId) ?? []),
    });
  }

  figures(): FleetFigures {
    const installed = this.#tmux.peek();
    const sockets = [...this.#entries.values()].map((entry) => entry.adapter?.listing.sockets());
    return {
      installedTmuxVersion: installed?.version ?? null,
      tmuxBinary: installed?.binary ?? null,
      helperCalls: this.#processes.count,
      liveSockets: sockets.reduce((sum, socket) => sum + (socket?.live ?? 0), 0),
      orphanedSockets: sockets.reduce((sum, socket) => sum + (socket?.orphaned ?? 0), 0),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    for (const entry of this.#entries.values()) this.#leave(entry);
    this.#entries.clear();
    this.#edition.turn();
    await Promise.all([...this.#leaving, this.#hooks?.[Symbol.asyncDispose]()]);
  }

  /** @throws NotFoundError for a member that is not here, or has no tmux to be asked */
  #adapter(memberId: string): TmuxAdapter {
    const adapter = this.#entries.get(memberId)?.adapter;
    if (adapter === undefined) throw new NotFoundError();
    return adapter;
  }

  #enter(memberId: string, osUser: string | null): Entry {
    const start = `${this.#start}.${++this.#lives}`;
    const empty: MemberListing = {
      memberId,
      status: {
        state: 'FRESH',
        version: `${start}-0`,
        observedAt: null,
        reason: null,
        detail: null,
        consecutiveFailures: 0,
        nextAttemptAt: null,
      },
      servers: [],
    };
    if (osUser === null) return { osUser, adapter: undefined, empty };
    const surroundings: Surroundings = {
      config: this.#config,
      clock: this.#clock,
      start,
      installedTmux: () => this.#tmux.peek(),
      edition: this.#edition,
      changed: (id) => this.#followers.changed(id),
      streams: this.#streams,
    };
    const helper = this.#helperFor(osUser);
    const adapter = new TmuxAdapter(memberId, helper, surroundings);
    if (!(helper instanceof RefusingHelper))
      this.#hooks?.add(osUser, {
        memberId,
        peek: () => adapter.peek(),
        refresh: () => adapter.refresh(),
        report: (pane, state) => adapter.listing.report(pane, state),
      });
    return { osUser, adapter, empty };
  }

  #helperFor(osUser: string): MemberHelper {
    const { mode, helper, helperIdleMs } = this.#config;
    if (!userName.test(osUser))
      return new RefusingHelper('the name of its Linux user is not valid');
    const own = osUser === this.#ownUser.username;
    if (mode === 'local' && !own) {
      return new RefusingHelper(
        `local mode reaches the tmux of ${this.#ownUser.username} only, not of ${osUser}; use system mode`,
      );
    }
    return new ProcessHelper({
      reach: mode === 'local' ? directReach(helper) : sudoReach(helper, osUser),
      processes: this.#processes,
      clock: this.#clock,
      idleMs: helperIdleMs,
    });
  }

  #leave(entry: Entry): void {
    if (entry.adapter === undefined || entry.osUser === null) return;
    this.#hooks?.remove(entry.osUser);
    const left: Promise<void> = entry.adapter[Symbol.asyncDispose]().finally(() =>
      this.#leaving.delete(left),
    );
    this.#leaving.add(left);
  }

  async #checkHelper(): Promise<void> {
    this.#helperCheckedAt = this.#clock.monotonic();
    this.#helperIsThere = await access(this.#config.helper).then(
      () => true,
      () => false,
    );
  }
}
