import type { Clock } from '../concurrency/clock.ts';
import type { Config } from '../config.ts';
import type { MemberHelper, ServerTarget } from './member-helper.ts';
import type {
  Generation,
  MemberListing,
  PaneRef,
  PaneView,
  ServerRef,
  ServerView,
  SessionView,
  WindowView,
} from './model.ts';
import type { PaneCapture, PaneOutputEvent, PaneScreenEvent } from './pane-events.ts';
import type { ServerLocks } from './server-locks.ts';

/**
 * One member's tmux, as the streams and the acts see it. adapter.ts implements it.
 *
 * `locatePane`, `findPane` and `target` are where an id becomes something that can be read or
 * touched: they let nothing through whose generation is not the present one, and they never answer
 * "not there" from a listing that could not be looked at.
 */
export interface MemberTmux {
  readonly memberId: string;
  readonly helper: MemberHelper;
  readonly config: Config;
  readonly clock: Clock;
  /** One act at a time on each server; the key is `serverKey(ref)`. */
  readonly locks: ServerLocks;

  /** What is known now; asks nobody. */
  peek(): MemberListing;
  /** Asks now, past any back-off: what comes back was looked at after the call, or is the failure. */
  refresh(): Promise<MemberListing>;
  /** Something may have changed: ask soon, at most once a second and 12 times a minute. */
  doorbell(): void;

  server(ref: ServerRef): ServerView | undefined;
  /** What that life of the server held when it last answered, however long ago. Null: it never did. */
  lastSessions(server: ServerView): readonly SessionView[] | null;
  /** How a server that is proven gone is shown. */
  absentServer(ref: ServerRef): ServerView;
  /**
   * The pane as it is listed now, asking nobody.
   * @throws StaleGenerationError, NotFoundError, ListingUnknownError
   */
  locatePane(pane: PaneRef): LocatedPane;
  /** As `locatePane`, but a cold listing is asked first (2 s at most). */
  findPane(pane: PaneRef): Promise<LocatedPane>;
  /** How requests name this server. @throws ListingUnknownError while process or start time is not known */
  target(server: ServerView): ServerTarget;
  /** The process alone, known also while the server does not answer. @throws ListingUnknownError */
  targetProcess(server: ServerView): TargetProcess;

  /**
   * What we did ourselves, into the listing at once: a snapshot in flight across the act is dropped
   * for that server, and the server is asked again.
   */
  writeThrough(ref: ServerRef, change: ServerChange): void;

  /** The tmux that a new server would run; undefined while none is found. */
  installedTmux(): InstalledTmux | undefined;
  /** Control clients of ours, which count as nobody's presence. */
  ownClientPids(): ReadonlySet<number>;
}

/** The live panes of one member: what plugs into its adapter to stream and capture them. */
export interface PaneStreams extends AsyncDisposable {
  output(
    pane: PaneRef,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncIterable<PaneOutputEvent>;
  screens(pane: PaneRef, everyMs: number, signal: AbortSignal): AsyncIterable<PaneScreenEvent>;
  capture(pane: PaneRef, lines: number, signal?: AbortSignal): Promise<PaneCapture>;
  ownClientPids(): ReadonlySet<number>;
}

export interface LocatedPane {
  readonly server: ServerView;
  readonly generation: Generation;
  readonly target: ServerTarget;
  /** The lowest place in which it is linked. */
  readonly session: SessionView;
  readonly window: WindowView;
  readonly pane: PaneView;
  /** Ids of every session that shows it, the lowest first. */
  readonly sessions: readonly number[];
}

export interface TargetProcess {
  readonly pid: number;
  readonly ticks: string;
}

export interface InstalledTmux {
  /** Absolute path. */
  readonly binary: string;
  readonly version: string;
}

/** What an act of ours did to a server. */
export type ServerChange =
  /** Something in it changed: rows of before are not to be shown as fresh. */
  | { readonly kind: 'touched' }
  /** Its process is proven gone and nobody listens on its path. */
  | { readonly kind: 'ended' }
  /** Another process serves the path now. */
  | {
      readonly kind: 'started';
      readonly pid: number;
      readonly ticks: string;
      readonly tmuxStartTime: number;
      readonly version: string | null;
    };

/** A key for maps and locks: equal for equal identities, within one member. */
export function serverKey(ref: Pick<ServerRef, 'pathHex' | 'generation'>): string {
  return ref.generation === undefined ? ref.pathHex : `${ref.pathHex}/${ref.generation}`;
}
