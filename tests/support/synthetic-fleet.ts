import { createHash } from 'node:crypto';
import { Bell } from '../../src/concurrency/bell.ts';
import { NotFoundError, StaleGenerationError } from '../../src/tmux/errors.ts';
import type { Fleet } from '../../src/tmux/fleet.ts';
import type {
  Account,
  ListingChange,
  ListingStatus,
  MemberListing,
  PaneRef,
  ServerView,
  SessionView,
} from '../../src/tmux/model.ts';
import type { PaneCapture, PaneOutputEvent, PaneScreenEvent } from '../../src/tmux/pane-events.ts';

/**
 * A fleet without tmux: listings that a test sets, for what is about GraphQL alone and for the
 * benchmark. What a fleet must do with tmux is tested on the real one.
 */
export class SyntheticFleet implements Fleet {
  readonly #listings = new Map<string, MemberListing>();
  readonly #changed = new Bell();
  /** Events of the next `output`, by pane number. */
  readonly outputs = new Map<number, readonly PaneOutputEvent[]>();
  /** Sources that are running now, to see that nothing is left behind. */
  following = 0;
  watching = 0;
  reads = 0;
  #edition = 0;

  set(listing: MemberListing): void {
    this.#listings.set(listing.memberId, listing);
    this.#edition += 1;
    this.#changed.ring();
  }

  remove(memberId: string): void {
    this.#listings.delete(memberId);
    this.#edition += 1;
    this.#changed.ring();
  }

  setAccounts(_accounts: readonly Account[]): void {
    this.#changed.ring();
  }

  peek(memberId: string): MemberListing | undefined {
    return this.#listings.get(memberId);
  }

  edition(): number {
    return this.#edition;
  }

  read(memberId: string): Promise<MemberListing | undefined> {
    this.reads += 1;
    return Promise.resolve(this.#listings.get(memberId));
  }

  refresh(memberId: string): Promise<MemberListing | undefined> {
    return this.read(memberId);
  }

  async *follow(
    memberIds: () => readonly string[],
    signal: AbortSignal,
  ): AsyncGenerator<ListingChange> {
    this.following += 1;
    try {
      const sent = new Map<string, MemberListing>();
      let synced = false;
      while (!signal.aborted) {
        const ids = new Set(memberIds());
        for (const id of sent.keys()) {
          if (ids.has(id) && this.#listings.has(id)) continue;
          sent.delete(id);
          yield { kind: 'removed', memberId: id };
        }
        for (const id of ids) {
          const listing = this.#listings.get(id);
          if (listing === undefined || sent.get(id)?.status.version === listing.status.version)
            continue;
          sent.set(id, listing);
          yield { kind: 'listing', listing };
        }
        if (!synced) yield { kind: 'synced', at: new Date() };
        synced = true;
        await this.#changed.wait(signal);
      }
    } finally {
      this.following -= 1;
    }
  }

  async *output(
    pane: PaneRef,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<PaneOutputEvent> {
    this.watching += 1;
    try {
      this.#pane(pane);
      if (after !== undefined && !after.startsWith('at-')) throw new RangeError('a bad cursor');
      for (const event of this.outputs.get(pane.pane) ?? []) yield event;
      await new Bell().wait(signal);
    } finally {
      this.watching -= 1;
    }
  }

  async *screens(
    pane: PaneRef,
    _everyMs: number,
    signal: AbortSignal,
  ): AsyncGenerator<PaneScreenEvent> {
    for await (const event of this.output(pane, undefined, signal)) {
      if (event.kind === 'snapshot') yield { ...event, kind: 'screen' };
    }
  }

  async capture(pane: PaneRef, lines: number): Promise<PaneCapture> {
    this.#pane(pane);
    return {
      data: Buffer.from(`screen of %${pane.pane} with ${lines} lines above\n`),
      columns: 80,
      rows: 24,
      cursorColumn: 0,
      cursorRow: 0,
      observedAt: new Date(0),
    };
  }

  prepareRestartServer(): Promise<never> {
    return Promise.reject(new Error('a synthetic fleet acts on nothing'));
  }
  prepareRestartPane(): Promise<never> {
    return Promise.reject(new Error('a synthetic fleet acts on nothing'));
  }
  wouldEnd(): Promise<never> {
    return Promise.reject(new Error('a synthetic fleet runs nothing'));
  }
  prepareRepairServer(): Promise<never> {
    return Promise.reject(new Error('a synthetic fleet acts on nothing'));
  }
  prepareProvision(): Promise<never> {
    return Promise.reject(new Error('a synthetic fleet acts on nothing'));
  }
  look(): Promise<never> {
    return Promise.reject(new Error('a synthetic fleet looks at nothing'));
  }
  problems() {
    return [];
  }
  figures() {
    return {
      installedTmuxVersion: '3.3a',
      tmuxBinary: '/usr/bin/tmux',
      helperCalls: 0,
      liveSockets: 0,
      orphanedSockets: 0,
    };
  }
  async [Symbol.asyncDispose](): Promise<void> {}

  #pane({ memberId, pathHex, generation, pane }: PaneRef): void {
    const servers = this.#listings.get(memberId)?.servers ?? [];
    const server = servers.find(({ ref }) => ref.pathHex === pathHex);
    if (server === undefined) throw new NotFoundError('The pane');
    if (server.generation !== generation)
      throw new StaleGenerationError(generation, server.generation);
    const panes = (server.sessions ?? [])
      .flatMap(({ windows }) => windows)
      .flatMap((window) => window.panes);
    if (!panes.some((each) => each.pane === pane)) throw new NotFoundError('The pane');
  }
}

export const bootId = '0c5f3a52-7c3e-4a6b-9d0e-3f1f6f2c9b11';

/** The same number gives the same id in every run. */
export function memberUuid(number: number): string {
  const hex = createHash('sha256').update(`member ${number}`).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

export function status(over: Partial<ListingStatus> = {}): ListingStatus {
  return {
    state: 'FRESH',
    version: 'v1',
    observedAt: new Date('2026-11-29T08:00:00.000Z'),
    reason: null,
    detail: null,
    consecutiveFailures: 0,
    nextAttemptAt: null,
    ...over,
  };
}

export function pathHex(path: string): string {
  return Buffer.from(path).toString('hex');
}

export function server(
  memberId: string,
  number: number,
  over: Partial<ServerView> = {},
): ServerView {
  const socketPath = `/tmp/tmux-${1000 + number}/default-${number}`;
  return {
    ref: { memberId, pathHex: pathHex(socketPath) },
    socketPath,
    status: 'RUNNING',
    reason: null,
    detail: null,
    generation: `${bootId}:${4000 + number}:${100_000 + number}`,
    pid: 4000 + number,
    startedAt: new Date('2026-11-28T08:00:00.000Z'),
    version: '3.3a',
    installedVersion: '3.5a',
    outdated: true,
    binaryDeleted: false,
    openFiles: 12,
    openFilesLimit: 1024,
    cpuPercent: 0.5,
    attachedClients: 1,
    idle: false,
    workingAgents: 0,
    activity: [],
    tmuxStartTime: 1_764_316_800,
    listing: status(),
    sessions: [session(0)],
    ...over,
  };
}

export function session(number: number, over: Partial<SessionView> = {}): SessionView {
  return {
    session: number,
    name: `session-${number}`,
    createdAt: new Date('2026-11-28T08:00:00.000Z'),
    attachedClients: 0,
    windows: [
      {
        window: number,
        index: 0,
        name: 'sh',
        active: true,
        layout: 'b25d,80x24,0,0,0',
        panes: [
          {
            pane: number,
            index: 0,
            title: 'host',
            currentCommand: 'sh',
            currentPath: '/home/x',
            startCommand: null,
            pid: 5000 + number,
            tty: `/dev/pts/${number}`,
            columns: 80,
            rows: 24,
            active: true,
            dead: false,
            exitStatus: null,
            exitSignal: null,
            inMode: false,
            foreground: { isShell: true, agent: null, job: null },
            report: null,
            agent: null,
          },
        ],
      },
    ],
    ...over,
  };
}

export function listing(
  memberId: string,
  servers: readonly ServerView[] | null,
  over: Partial<ListingStatus> = {},
): MemberListing {
  return { memberId, status: status(over), servers };
}
